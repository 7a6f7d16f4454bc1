"""Every screen by the name that opens it. A screen's module is imported when it is first opened, so that the console
starts quickly.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from textual.screen import Screen


@dataclass(frozen=True, slots=True)
class Spec:
    """A screen. `argument` is its argument (topic, group, ...), followed by `?` if it is optional; empty for none."""

    name: str
    what: str
    module: str
    view: str
    argument: str = ""
    aliases: tuple[str, ...] = ()

    def load(self) -> type[Screen[None]]:
        """The class of the screen."""
        loaded: type[Screen[None]] = getattr(import_module(f"admin_tui.screens.{self.module}"), self.view)
        return loaded


SPECS = (
    Spec("overview", "health, throughput, latency and recent events", "overview", "OverviewView", aliases=("home",)),
    Spec("brokers", "brokers of the cluster", "brokers", "BrokersView"),
    Spec("broker-settings", "settings of a broker", "settings", "BrokerSettingsView", "broker"),
    Spec("topics", "topics; create, configure, clone, delete", "topics", "TopicsView"),
    Spec("topic", "partitions of a topic", "topic", "TopicView", "topic"),
    Spec("topic-settings", "settings of a topic", "settings", "TopicSettingsView", "topic"),
    Spec("messages", "records of a topic; search, live tail, produce, export", "messages", "MessagesView", "topic"),
    Spec(
        "schemas", "subjects of the schema registry; register, delete", "schemas", "SchemasView", aliases=("subjects",)
    ),
    Spec("schema", "versions of a subject, and their differences", "schema", "SchemaView", "subject"),
    Spec("mirrors", "flows of mirrors into the cluster", "mirrors", "MirrorsView", aliases=("mirroring", "links")),
    Spec("mirror", "partitions and problems of a flow; pause, resume, promote", "mirror", "MirrorView", "flow"),
    Spec("streams", "stream processing applications", "streams", "StreamsView", aliases=("applications",)),
    Spec("stream", "tasks and instances of an application", "stream", "StreamView", "group"),
    Spec("groups", "groups with their lag", "groups", "GroupsView"),
    Spec("group", "members, assignment and lag of a group", "group", "GroupView", "group"),
    Spec("rebalances", "rebalances of one group or of all", "rebalances", "RebalancesView", "group?"),
    Spec("transactions", "open and hanging transactions", "transactions", "TransactionsView", aliases=("txn",)),
    Spec("producers", "producers of a topic's partitions", "producers", "ProducersView", "topic"),
    Spec("connections", "connections by traffic", "connections", "ConnectionsView"),
    Spec("log-dirs", "log directories and the space that they use", "log_dirs", "LogDirsView", aliases=("disks",)),
    Spec("metrics", "requests by API and phase", "metrics", "MetricsView"),
    Spec("replication", "partitions offline or out of sync; elect", "replication", "ReplicationView", aliases=("isr",)),
    Spec(
        "reassignments",
        "partitions that are being reassigned; cancel",
        "reassignments",
        "ReassignmentsView",
        aliases=("moves", "reassign"),
    ),
    Spec("quorum", "the metadata quorum; add and remove voters; features", "quorum", "QuorumView"),
    Spec("acls", "ACLs; create, delete and explain", "acls", "AclsView"),
    Spec(
        "scram-users",
        "SCRAM users; create, set passwords, delete",
        "scram_users",
        "ScramUsersView",
        aliases=("users", "scram"),
    ),
    Spec("quotas", "quotas, those that apply to a client, and their use", "quotas", "QuotasView"),
    Spec(
        "delegation-tokens",
        "delegation tokens; create, renew, expire",
        "delegation_tokens",
        "DelegationTokensView",
        aliases=("tokens",),
    ),
    Spec(
        "denied-requests",
        "failed logins and denied operations",
        "denied_requests",
        "DeniedRequestsView",
        aliases=("refusals", "denials"),
    ),
    Spec("events", "events of the cluster", "events", "EventsView"),
    Spec("alerts", "alert rules, and the alerts that fire", "alerts", "AlertsView"),
)
BY_NAME = {name: spec for spec in SPECS for name in (spec.name, *spec.aliases)}


def binding_ids() -> frozenset[str]:
    """The ids of all key bindings of screens, widgets and dialogs."""
    from textual.binding import Binding

    ids: set[str] = set()
    modules = {spec.module for spec in SPECS} | {"view"}
    found = [import_module(f"admin_tui.screens.{module}") for module in sorted(modules)]
    found += [import_module(f"admin_tui.{name}") for name in ("app", "widgets.grid", "widgets.bars")]
    found += [import_module(f"admin_tui.dialogs.{name}") for name in ("act", "form", "help")]
    for module in found:
        for thing in [*vars(module).values()]:
            for holder in [thing, *vars(thing).values()] if isinstance(thing, type) else []:
                for binding in getattr(holder, "BINDINGS", ()) if isinstance(holder, type) else ():
                    if isinstance(binding, Binding) and binding.id and "." in binding.id:
                        ids.add(binding.id)
    return frozenset(ids)
