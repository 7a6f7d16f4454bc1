"""The flows of a file with their typed settings, and those that run in this process."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from broker_cy.client.errors import ClientError
from broker_cy.client.security import NAMES as SECURITY_NAMES
from broker_cy.client.security import PROTOCOL, WITH_SASL, WITH_TLS, protocol_of
from broker_cy.core.config_def.scoped import Support
from broker_cy.core.config_def.types import ConfigError, Password
from broker_mirror.config import MirrorConfig
from broker_mirror.filters import NameFilter, PropertyFilter, pattern_of
from broker_mirror.merged import (
    BOOTSTRAP,
    Pair,
    Role,
    Side,
    client_properties,
    connector_properties,
    pairs_of,
    worker_properties,
)
from broker_mirror.policy import SEPARATOR, Policy
from broker_mirror.settings import OVERRIDE, ROLES, Scope, flow_names, table
from broker_mirror.transforms.chain import Chain
from broker_mirror.transforms.configuration import cautions_of, chain_of, refuse

RECREATED: Final = "brokercy.recreated.topics"
SUPPORT: Final = "exactly.once.source.support"
HEADER_CONVERTER: Final = "header.converter"
IDENTITY: Final = "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"


class FlowKind(Enum):
    """How records come into the target: produced by this program, or fetched by its brokers with their offsets."""

    COPY = "copy"
    LINK = "link"


class Verdict(Enum):
    """Whether a topic of the source is copied, and if not, the reason."""

    COPIED = "copied"
    FILTERED = "filtered"
    INTERNAL = "internal"
    CYCLE = "cycle"


@dataclass(frozen=True, slots=True)
class ClientSettings:
    """The settings of a client of a flow. `security` has those of broker_cy.client.security and may contain secrets;
    `values` are the others of its scope, typed, with defaults.
    """

    bootstrap: str
    security: Mapping[str, str]
    values: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Flow:
    """A pair of clusters. `values` are the settings of the scopes flow and worker, typed, with defaults. `recreated`
    takes the topics that may be deleted and created again. `demands_exactly_once`: the file asks for transactions.
    `transforms` change the records of a copy flow; without them, None. `cautions` are warnings about their settings.
    """

    pair: Pair
    kind: FlowKind
    copies: bool
    policy: Policy
    topics: NameFilter
    groups: NameFilter
    recreated: NameFilter
    properties: PropertyFilter
    demands_exactly_once: bool
    values: Mapping[str, Any]
    clients: Mapping[tuple[Side, Role], ClientSettings]
    transforms: Chain | None
    cautions: tuple[str, ...]

    @property
    def source(self) -> str:
        """The alias of the source in names of topics, and in records."""
        return str(self.values["source.cluster.alias"])

    @property
    def target(self) -> str:
        return str(self.values["target.cluster.alias"])

    def interval_s(self, what: str) -> int | None:
        """Return the seconds between two turns of a task such as `refresh.topics`; None if it is disabled."""
        interval = int(self.values[f"{what}.interval.seconds"])
        return interval if self.values[f"{what}.enabled"] and interval > 0 else None

    def verdict(self, topic: str) -> Verdict:
        """Return whether a topic of the source is copied."""
        of_heartbeats = self.values["heartbeats.replication.enabled"] and self.policy.is_heartbeats_topic(topic)
        if not of_heartbeats and not self.topics.takes(topic):
            return Verdict.FILTERED
        if self.policy.is_internal_topic(topic):
            return Verdict.INTERNAL
        return Verdict.CYCLE if self.policy.is_cycle(topic, self.target) else Verdict.COPIED

    def copies_topic(self, topic: str) -> bool:
        """Whether a topic of the source is copied."""
        return self.verdict(topic) is Verdict.COPIED

    def remote_topic(self, topic: str) -> str:
        return self.policy.remote_topic(self.source, topic)

    @property
    def syncs_side(self) -> Side:
        """The cluster with the topic of offset syncs."""
        return Side(self.values["offset-syncs.topic.location"])

    @property
    def offset_syncs_topic(self) -> str:
        return self.policy.offset_syncs_topic(self.target if self.syncs_side is Side.SOURCE else self.source)

    @property
    def checkpoints_topic(self) -> str:
        return self.policy.checkpoints_topic(self.source)

    @property
    def offsets_topic(self) -> str:
        """The topic of the target with the offsets that the flow has reached."""
        return str(self.values["offset.storage.topic"])

    @property
    def link(self) -> str:
        """The link of the target's brokers over which its topics mirror those of the source (link flows)."""
        return str(self.values["brokercy.link"] or self.pair.source)

    @property
    def is_exactly_once(self) -> bool:
        return str(self.values[SUPPORT]).lower() == "enabled"


def flows_of(config: MirrorConfig) -> tuple[Flow, ...]:
    """Return the flows of a file, in the order of `clusters`. Raises ConfigError, which names the setting."""
    return tuple(_flow(config, pair) for pair in pairs_of(config.properties, config.clusters))


def chosen(flows: Iterable[Flow], targets: Sequence[str], config: MirrorConfig) -> tuple[Flow, ...]:
    """Return the flows whose targets are in `targets` (the option --clusters); without targets, all of them. Raises
    ConfigError if there are none.
    """
    for alias in targets:
        if alias not in config.clusters:
            raise ConfigError(f"--clusters names {alias}, but clusters has only {', '.join(config.clusters)}")
    found = tuple(flow for flow in flows if not targets or flow.pair.target in targets)
    if not found:
        into = f" into {', '.join(targets)}" if targets else ""
        raise ConfigError(f"no flow{into} is enabled: set SOURCE->TARGET.enabled=true")
    return found


def cautions(flow: Flow) -> list[str]:
    """Return warnings about settings of a flow that have no effect without another one, as in MirrorMaker 2."""
    found = list(flow.cautions)
    for name, needed in (
        ("emit.checkpoints.enabled", "emit.offset-syncs.enabled"),
        ("sync.group.offsets.enabled", "emit.checkpoints.enabled"),
        ("sync.group.offsets.enabled", "emit.offset-syncs.enabled"),
    ):
        if flow.copies and flow.kind is FlowKind.COPY and flow.values[name] and not flow.values[needed]:
            found.append(f"{flow.pair.prefix}{name} has no effect without {needed}=true")
    return found


def _flow(config: MirrorConfig, pair: Pair) -> Flow:
    connector = connector_properties(config.properties, pair, flow_names())
    worker = worker_properties(config.properties, pair)
    of_flow = _values(Scope.FLOW, connector, pair.prefix)
    values = of_flow | _values(Scope.WORKER, worker, f"{pair.target}.")
    if HEADER_CONVERTER in connector:
        # That of a connector wins over that of its worker.
        values[HEADER_CONVERTER] = of_flow[HEADER_CONVERTER]
    transforms = None
    if values["enabled"]:
        transforms = _transforms(connector, pair, values)
    separator = values["replication.policy.separator"]
    uses_separator = values["replication.policy.internal.topic.separator.enabled"]
    source = values["source.cluster.alias"]
    flow = Flow(
        pair=pair,
        kind=FlowKind(values["brokercy.flow"]),
        copies=values["enabled"],
        policy=Policy(
            separator,
            separator if uses_separator else SEPARATOR,
            values["replication.policy.class"] == IDENTITY,
            source,
        ),
        topics=_names(values, pair, "topics"),
        groups=_names(values, pair, "groups"),
        recreated=NameFilter(_pattern(values, pair, RECREATED), None),
        demands_exactly_once=SUPPORT in worker or values["exactly.once.support"].lower() == "required",
        properties=PropertyFilter(
            pattern_of(f"{pair.prefix}config.properties.exclude", values["config.properties.exclude"]),
            values["use.defaults.from"] == "source",
        ),
        values=values,
        clients={
            (side, role): _client(connector, config.properties, pair, side, role) for side in Side for role in Role
        },
        transforms=transforms,
        cautions=cautions_of(connector, pair.prefix) if values["enabled"] else (),
    )
    if values["exactly.once.support"].lower() == "required" and not flow.is_exactly_once:
        raise ConfigError(f"{pair.prefix}exactly.once.support=required needs {pair.target}.{SUPPORT}=enabled")
    return flow


def _transforms(connector: Mapping[str, str], pair: Pair, values: Mapping[str, Any]) -> Chain | None:
    """Return the transforms of a flow that copies. Raises ConfigError."""
    converter = values[HEADER_CONVERTER]
    if FlowKind(values["brokercy.flow"]) is FlowKind.LINK:
        refuse(connector, pair.prefix, converter)
        return None
    return chain_of(connector, pair.prefix, converter)


def _values(scope: Scope, properties: Mapping[str, str], prefix: str) -> dict[str, Any]:
    """Return the typed values of the settings of a scope that have an effect, with defaults. Raises ConfigError."""
    found = {}
    for (each, name), setting in table().items():
        if each is scope and setting.support is Support.EFFECTIVE and not name.endswith("*"):
            text = properties.get(name)
            value = setting.default if text is None else setting.read(f"{prefix}{name}", text)
            found[name] = value.value if isinstance(value, Password) else value
    return found


def _names(values: Mapping[str, Any], pair: Pair, name: str) -> NameFilter:
    return NameFilter(_pattern(values, pair, name), _pattern(values, pair, f"{name}.exclude"))


def _pattern(values: Mapping[str, Any], pair: Pair, name: str) -> re.Pattern[str] | None:
    return pattern_of(f"{pair.prefix}{name}", values[name])


def _fitting(security: Mapping[str, str], top: Mapping[str, str]) -> dict[str, str]:
    """Return the settings without those of all clusters (`top`) that the protocol of this one does not use."""
    protocol = security.get(PROTOCOL, "PLAINTEXT").upper()
    unused = [prefix for prefix, used in (("sasl.", WITH_SASL), ("ssl.", WITH_TLS)) if protocol not in used]
    return {
        name: text for name, text in security.items() if not (name.startswith(tuple(unused)) and top.get(name) == text)
    }


def _client(connector: Mapping[str, str], top: Mapping[str, str], pair: Pair, side: Side, role: Role) -> ClientSettings:
    alias = pair.source if side is Side.SOURCE else pair.target
    properties = client_properties(connector, side, role)
    if (side, role) == (Side.TARGET, Role.PRODUCER):
        # MirrorMaker 2 produces records with the producer of its worker, which takes these.
        size = len(OVERRIDE)
        properties |= {name[size:]: text for name, text in connector.items() if name.startswith(OVERRIDE)}
    bootstrap = ",".join(part.strip() for part in properties.get(BOOTSTRAP, "").split(",") if part.strip())
    if not bootstrap:
        raise ConfigError(f"{alias}.{BOOTSTRAP} is not set")
    security = _fitting({name: text for name, text in properties.items() if name in SECURITY_NAMES}, top)
    try:
        protocol_of(security, f"{alias}.{role.value}")
    except ClientError as error:
        raise ConfigError(str(error)) from None
    return ClientSettings(bootstrap, security, _values(ROLES[role], properties, f"{alias}.{role.value}."))
