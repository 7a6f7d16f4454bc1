"""Settings of a flow as MirrorMaker 2 merges them from its file: MirrorMakerConfig and MirrorConnectorConfig of Kafka.

    NAME                      of all flows, or of the clients of all clusters if it is about their connections
    CLUSTER.NAME              of the clients and workers of a cluster
    SOURCE->TARGET.NAME       of a flow; this wins

The settings of the clients of a flow have the prefixes `source.cluster.` and `target.cluster.`, and `source.consumer.`,
`target.producer.` and so on.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Final, NamedTuple

from broker_cy.client.security import NAMES as SECURITY_NAMES

BOOTSTRAP: Final = "bootstrap.servers"
CONNECTION_NAMES: Final = (BOOTSTRAP, *SECURITY_NAMES)
"""Settings of connections: given once for a cluster, they are those of its consumers, producers and admin clients."""
ENABLED: Final = "enabled"
EMIT_HEARTBEATS: Final = "emit.heartbeats.enabled"
POLICY_PREFIX: Final = "replication.policy"
PROVIDERS: Final = "config.providers"
CONNECTOR_CLASS: Final = "org.apache.kafka.connect.mirror.MirrorSourceConnector"
BYTES_CONVERTER: Final = "org.apache.kafka.connect.converters.ByteArrayConverter"
CONVERTERS: Final = ("key.converter", "value.converter", "header.converter")
# The worker takes these from the top of the file too.
WORKER_PREFIXES: Final = (
    "offset.storage",
    "config.storage",
    "status.storage",
    *CONVERTERS,
    "task",
    "worker",
    POLICY_PREFIX,
)
_OF_CLIENTS: Final = re.compile(r"consumer|producer|admin")


class Side(Enum):
    """The cluster of a flow that a client belongs to."""

    SOURCE = "source"
    TARGET = "target"


class Role(Enum):
    """The kind of a client."""

    PRODUCER = "producer"
    CONSUMER = "consumer"
    ADMIN = "admin"


class Pair(NamedTuple):
    """The aliases of a source and its target."""

    source: str
    target: str

    def __str__(self) -> str:
        return f"{self.source}->{self.target}"

    @property
    def prefix(self) -> str:
        return f"{self.source}->{self.target}."


def pairs_of(properties: Mapping[str, str], clusters: Iterable[str]) -> list[Pair]:
    """Return the pairs of clusters between which something runs: copying, or heartbeats only.

    The heartbeats of A->B are records in B about the flow from A, so B->A has a use even if nothing is copied there.
    """
    aliases = list(dict.fromkeys(clusters))
    beats = properties.get(EMIT_HEARTBEATS, "true")
    return [
        pair
        for pair in (Pair(source, target) for source in aliases for target in aliases if source != target)
        if _is_true(properties.get(f"{pair.prefix}{ENABLED}"))
        or _is_true(properties.get(f"{pair.prefix}{EMIT_HEARTBEATS}", beats))
    ]


def cluster_properties(properties: Mapping[str, str], alias: str) -> dict[str, str]:
    """Return the settings of a cluster, with those of connections for each kind of client."""
    found = _stripped(properties, f"{alias}.")
    for given in (dict(found), properties):
        for name in CONNECTION_NAMES:
            if name in given:
                for role in Role:
                    found.setdefault(f"{role.value}.{name}", given[name])
                found.setdefault(name, given[name])
    return found


def worker_properties(properties: Mapping[str, str], pair: Pair) -> dict[str, str]:
    """Return the settings of the worker of Kafka Connect that MirrorMaker 2 starts for a pair."""
    found = cluster_properties(properties, pair.target)
    for prefix in (*WORKER_PREFIXES, PROVIDERS):
        found |= {name: text for name, text in properties.items() if name.startswith(prefix)}
    defaults = {
        "client.id": str(pair),
        "group.id": f"{pair.source}-mm2",
        "offset.storage.topic": f"mm2-offsets.{pair.source}.internal",
        "status.storage.topic": f"mm2-status.{pair.source}.internal",
        "config.storage.topic": f"mm2-configs.{pair.source}.internal",
        **dict.fromkeys(CONVERTERS, BYTES_CONVERTER),
    }
    return defaults | found


def connector_properties(properties: Mapping[str, str], pair: Pair, names: frozenset[str]) -> dict[str, str]:
    """Return the settings of the connectors of a pair; `names` are those that connectors know."""
    found = {
        name: text
        for name, text in properties.items()
        if name in names or name in SECURITY_NAMES or name.startswith((PROVIDERS, POLICY_PREFIX))
    }
    for side, alias in ((Side.SOURCE, pair.source), (Side.TARGET, pair.target)):
        for name, text in cluster_properties(properties, alias).items():
            kind = "" if _OF_CLIENTS.match(name) else "cluster."
            found[f"{side.value}.{kind}{name}"] = text
    found.setdefault("name", CONNECTOR_CLASS.rpartition(".")[2])
    found.setdefault("connector.class", CONNECTOR_CLASS)
    found.setdefault("source.cluster.alias", pair.source)
    found.setdefault("target.cluster.alias", pair.target)
    found |= _stripped(properties, pair.prefix)
    found.setdefault(ENABLED, "false")
    return found


def client_properties(connector: Mapping[str, str], side: Side, role: Role) -> dict[str, str]:
    """Return the settings of a client of a flow, from those of its connectors."""
    of_cluster = _stripped(connector, f"{side.value}.cluster.")
    found = {name: text for name, text in of_cluster.items() if name in CONNECTION_NAMES}
    return found | _stripped(connector, f"{role.value}.") | _stripped(connector, f"{side.value}.{role.value}.")


def _stripped(properties: Mapping[str, str], prefix: str) -> dict[str, str]:
    """Return the settings that begin with a prefix, without it."""
    size = len(prefix)
    return {name[size:]: text for name, text in properties.items() if name.startswith(prefix) and len(name) > size}


def _is_true(text: str | None) -> bool:
    """Java's Boolean.parseBoolean."""
    return text is not None and text.lower() == "true"
