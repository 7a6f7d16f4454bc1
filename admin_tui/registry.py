"""Every screen by the name it is called with. A screen's module is imported when it is first opened: the start counts
each of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from admin_tui.screens.view import View


@dataclass(frozen=True, slots=True)
class Spec:
    """A screen. `argument` is what it needs (topic, group, ...), empty where it needs nothing."""

    name: str
    what: str
    module: str
    view: str
    argument: str = ""
    aliases: tuple[str, ...] = ()

    def load(self) -> type[View]:
        """The class."""
        loaded: type[View] = getattr(import_module(f"admin_tui.screens.{self.module}"), self.view)
        return loaded


SPECS = (
    Spec("overview", "health, throughput, latency, what changed last", "overview", "OverviewView", aliases=("home",)),
    Spec("brokers", "brokers of the cluster", "brokers", "BrokersView"),
    Spec("broker-settings", "settings of a broker", "settings", "BrokerSettingsView", "broker"),
    Spec("topics", "topics; create, configure, clone, delete", "topics", "TopicsView"),
    Spec("topic", "partitions of a topic", "topic", "TopicView", "topic"),
    Spec("topic-settings", "settings of a topic", "settings", "TopicSettingsView", "topic"),
    Spec("messages", "records of a topic; search, live tail, produce, export", "messages", "MessagesView", "topic"),
    Spec("groups", "groups with their lag", "groups", "GroupsView"),
    Spec("group", "members, assignment and lag of a group", "group", "GroupView", "group"),
    Spec("rebalances", "rebalances of a group, or of all", "rebalances", "RebalancesView", "group?"),
    Spec("transactions", "open and hanging transactions", "transactions", "TransactionsView", aliases=("txn",)),
    Spec("producers", "producers of a topic's partitions", "producers", "ProducersView", "topic"),
    Spec("connections", "connections by traffic", "connections", "ConnectionsView"),
    Spec("log-dirs", "log directories and what takes room in them", "log_dirs", "LogDirsView", aliases=("disks",)),
    Spec("metrics", "requests by API and phase", "metrics", "MetricsView"),
    Spec("quorum", "the metadata quorum and features", "quorum", "QuorumView"),
    Spec("events", "what happened in the cluster", "events", "EventsView"),
    Spec("alerts", "rules of the alert file, and which are broken", "alerts", "AlertsView"),
)
BY_NAME = {name: spec for spec in SPECS for name in (spec.name, *spec.aliases)}


def binding_ids() -> frozenset[str]:
    """The ids of all bindings of all screens and parts."""
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
