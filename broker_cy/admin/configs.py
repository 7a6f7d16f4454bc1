"""Settings of topics, brokers, groups and loggers: their values, where each value comes from, and changing them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import Final

from broker_cy.admin.caller import Brokers, Caller, Outcome
from broker_cy.admin.metadata import Metadata
from broker_cy.client.deadline import Deadline
from broker_cy.client.errors import ClientError, Failure, Problem, problem_of
from broker_cy.client.pool import Peer
from broker_cy.core.classes import NamedTuple, dataclass
from broker_cy.core.configs import ConfigSource, ConfigType
from broker_cy.wire import messages

# Resources of one request; a broker answers about 40 settings of each.
RESOURCES_MAX = 200


class ResourceType(IntEnum):
    """The resources that have settings, with Kafka's numbers."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class ConfigResource(NamedTuple):
    """One topic, broker, group ... . A broker's name is its id, or empty for the default of all brokers."""

    kind: ResourceType
    name: str

    def __str__(self) -> str:
        return f"{self.kind.name.lower().replace('_', ' ')} {self.name or '(default)'}"

    @property
    def node_id(self) -> int | None:
        """The only broker that can answer; None if any can. ClientError if the name is not a broker id."""
        if self.kind not in (ResourceType.BROKER, ResourceType.BROKER_LOGGER) or not self.name:
            return None
        if not (self.name.isascii() and self.name.isdecimal()):
            raise ClientError(
                Failure.INVALID, f"{self.name!r} is not a broker id: a number is expected", what=str(self)
            )
        return int(self.name)


@dataclass(frozen=True, slots=True)
class ConfigSynonym:
    """A place the value can come from; the first one in the list is in force."""

    name: str
    value: str | None
    source: ConfigSource


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    """A setting. `value` is None if it is null or secret."""

    name: str
    value: str | None
    source: ConfigSource
    is_read_only: bool
    is_sensitive: bool
    kind: ConfigType
    synonyms: tuple[ConfigSynonym, ...]
    documentation: str | None

    @property
    def is_default(self) -> bool:
        return self.source is ConfigSource.DEFAULT_CONFIG


class AlterOp(IntEnum):
    """The kind of a change; APPEND and SUBTRACT are for lists (KIP-339)."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class ConfigChange(NamedTuple):
    """One change of one setting. DELETE ignores `value`."""

    name: str
    op: AlterOp
    value: str | None = None


SECRET: Final = "(secret)"
# A broker describes no setting that is not set yet, so names count as well.
_SECRET_ENDINGS: Final = ("password", "passphrase", "secret", "secret.key", "keystore.key", "jaas.config")


def has_secret(name: str, entry: ConfigEntry | None = None) -> bool:
    """Whether the value of a setting must not be shown; `entry` is the setting now, if the broker describes it."""
    return name.endswith(_SECRET_ENDINGS) or (entry is not None and entry.is_sensitive)


class _Places:
    """Locates settings: a broker's settings at that broker, all others at any broker."""

    def __init__(self, metadata: Metadata) -> None:
        self.metadata = metadata
        self.brokers = Brokers(metadata)

    async def locate(
        self, keys: list[ConfigResource], deadline: Deadline
    ) -> tuple[dict[Peer, list[ConfigResource]], dict[ConfigResource, ClientError]]:
        places: dict[Peer, list[ConfigResource]] = {}
        failed: dict[ConfigResource, ClientError] = {}
        for key in keys:
            try:
                node_id = key.node_id
                if node_id is None:
                    peer = await self.metadata.any_peer(deadline)
                else:
                    peer = await self.metadata.peer(node_id, deadline)
            except ClientError as error:
                failed[key] = error.about(str(key))
                continue
            places.setdefault(peer, []).append(key)
        return places, failed

    def forget(self, keys: Iterable[ConfigResource]) -> None:
        """Nothing is kept."""


class ConfigCalls:
    """`client.configs`."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    async def describe(
        self,
        resources: Iterable[ConfigResource],
        *,
        names: Iterable[str] | None = None,
        documentation: bool = False,
    ) -> Outcome[ConfigResource, tuple[ConfigEntry, ...]]:
        """The settings (`names`: only these) of each resource, by name, with their synonyms."""
        wanted = None if names is None else list(names)

        async def send(
            peer: Peer, keys: list[ConfigResource], deadline: Deadline
        ) -> dict[ConfigResource, tuple[ConfigEntry, ...] | Problem]:
            request = messages.DescribeConfigsRequest(
                resources=[
                    messages.DescribeConfigsRequest.DescribeConfigsResource(
                        resource_type=key.kind, resource_name=key.name, configuration_keys=wanted
                    )
                    for key in keys
                ],
                include_synonyms=True,
                include_documentation=documentation,
            )
            answer, _ = await self._caller.pool.ask(
                peer, request, messages.DescribeConfigsResponse, deadline, at_least=3 if documentation else 1
            )
            out: dict[ConfigResource, tuple[ConfigEntry, ...] | Problem] = {}
            for each in answer.results:
                key = _resource(each.resource_type, each.resource_name)
                problem = problem_of(each.error_code, each.error_message)
                out[key] = problem or tuple(sorted(map(_entry, each.configs), key=lambda entry: entry.name))
            return out

        return await self._caller.spread(
            resources, _Places(self._caller.metadata), send, api="DescribeConfigs", name=str, chunk=RESOURCES_MAX
        )

    async def alter(
        self, changes: Mapping[ConfigResource, Iterable[ConfigChange]], *, validate_only: bool = False
    ) -> Outcome[ConfigResource, bool]:
        """Change settings and leave the others as they are (KIP-339); True for each resource that was changed.

        With `validate_only` the broker answers in the same way, but changes nothing.
        """
        wanted = {key: list(each) for key, each in changes.items()}

        async def send(
            peer: Peer, keys: list[ConfigResource], deadline: Deadline
        ) -> dict[ConfigResource, bool | Problem]:
            request = messages.IncrementalAlterConfigsRequest(
                resources=[
                    messages.IncrementalAlterConfigsRequest.AlterConfigsResource(
                        resource_type=key.kind,
                        resource_name=key.name,
                        configs=[
                            messages.IncrementalAlterConfigsRequest.AlterableConfig(
                                name=change.name,
                                config_operation=change.op,
                                value=None if change.op is AlterOp.DELETE else change.value,
                            )
                            for change in wanted[key]
                        ],
                    )
                    for key in keys
                ],
                validate_only=validate_only,
            )
            answer, _ = await self._caller.pool.ask(peer, request, messages.IncrementalAlterConfigsResponse, deadline)
            return {
                _resource(each.resource_type, each.resource_name): problem_of(each.error_code, each.error_message)
                or True
                for each in answer.responses
            }

        return await self._caller.spread(
            wanted, _Places(self._caller.metadata), send, api="IncrementalAlterConfigs", name=str, chunk=RESOURCES_MAX
        )


def _resource(kind: int, name: str) -> ConfigResource:
    try:
        return ConfigResource(ResourceType(kind), name)
    except ValueError:
        raise ClientError(
            Failure.MALFORMED, f"the answer contains resource type {kind}, which was not asked for"
        ) from None


def _entry(each: messages.DescribeConfigsResponse.DescribeConfigsResourceResult) -> ConfigEntry:
    return ConfigEntry(
        each.name,
        each.value,
        _source(each.config_source),
        each.read_only,
        each.is_sensitive,
        ConfigType(each.config_type) if each.config_type in ConfigType._value2member_map_ else ConfigType.UNKNOWN,
        tuple(ConfigSynonym(other.name, other.value, _source(other.source)) for other in each.synonyms),
        each.documentation,
    )


def _source(number: int) -> ConfigSource:
    try:
        return ConfigSource(number)
    except ValueError:
        return ConfigSource.UNKNOWN
