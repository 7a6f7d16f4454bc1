"""The cluster as a whole: brokers, controller, features, and the requests that a broker supports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from broker_cy.admin.caller import Caller
from broker_cy.client.errors import Problem, problem_of
from broker_cy.core.classes import dataclass
from broker_cy.wire import messages
from broker_cy.wire.api_keys import ApiKey

_BROKERS_ENDPOINT = 1
# Kafka's FeatureUpdate.UpgradeType. A downgrade that would lose metadata is not asked for.
UPGRADE = 1
_SAFE_DOWNGRADE = 2


@dataclass(frozen=True, slots=True)
class BrokerInfo:
    """A broker. `is_fenced`: registered, but not in service (KIP-1073); reported from DescribeCluster 2 on."""

    broker_id: int
    host: str
    port: int
    rack: str | None
    is_fenced: bool


@dataclass(frozen=True, slots=True)
class ClusterDescription:
    """The answer of DescribeCluster. `controller_id` is a broker for changes, any one if each forwards them (KIP-590);
    -1: no broker.
    """

    cluster_id: str
    controller_id: int
    brokers: tuple[BrokerInfo, ...]


@dataclass(frozen=True, slots=True)
class FeatureRange:
    """A feature: the levels that the broker supports, and the level that the cluster finalized (None: none)."""

    name: str
    supported_min: int
    supported_max: int
    finalized: int | None


@dataclass(frozen=True, slots=True)
class ApiRange:
    """An API that the broker supports, with its versions."""

    api_key: int
    name: str
    min_version: int
    max_version: int


class ClusterCalls:
    """`client.cluster`."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    async def describe(self) -> ClusterDescription:
        """The brokers, including fenced ones if the broker reports them, and the controller. Raises ClientError."""
        deadline = self._caller.deadline()
        request = messages.DescribeClusterRequest(endpoint_type=_BROKERS_ENDPOINT)
        link = await self._caller.pool.link(await self._caller.metadata.any_peer(deadline), deadline)
        offered = link.versions.get(ApiKey.DESCRIBE_CLUSTER)
        if offered is not None and offered.high >= 2:
            request.include_fenced_brokers = True
        answer = await self._caller.ask(
            request,
            messages.DescribeClusterResponse,
            lambda got: problem_of(got.error_code, got.error_message),
            deadline=deadline,
        )
        brokers = [
            BrokerInfo(each.broker_id, each.host, each.port, each.rack, each.is_fenced) for each in answer.brokers
        ]
        brokers.sort(key=lambda each: each.broker_id)
        return ClusterDescription(answer.cluster_id, answer.controller_id, tuple(brokers))

    async def features(self, broker_id: int | None = None) -> tuple[FeatureRange, ...]:
        """Features of a broker (None: any), by name. Raises ClientError."""
        answer = await self._api_versions(broker_id)
        finalized = {each.name: each.max_version_level for each in answer.finalized_features}
        supported = {each.name: (each.min_version, each.max_version) for each in answer.supported_features}
        return tuple(
            FeatureRange(name, *supported.get(name, (0, 0)), finalized.get(name))
            for name in sorted(supported | finalized)
        )

    async def finalize(self, levels: Mapping[str, int]) -> None:
        """Finalize levels of features, all of them or none; 0 means that the feature is not used. Returns when that is
        committed. Raises ClientError: INVALID_UPDATE_VERSION if a node does not support a level, or a downgrade would
        lose metadata.
        """
        now = {each.name: each.finalized or 0 for each in await self.features()}
        updates = [
            (name, level, UPGRADE if level >= now.get(name, 0) else _SAFE_DOWNGRADE) for name, level in levels.items()
        ]
        await finalize_features(self._caller, updates, ", ".join(levels))

    async def api_versions(self, broker_id: int | None = None) -> tuple[ApiRange, ...]:
        """The APIs that a broker (None: any) supports, by API key. Raises ClientError."""
        answer = await self._api_versions(broker_id)
        ranges = [
            ApiRange(each.api_key, _name_of(each.api_key), each.min_version, each.max_version)
            for each in answer.api_keys
        ]
        return tuple(sorted(ranges, key=lambda each: each.api_key))

    async def _api_versions(self, broker_id: int | None) -> messages.ApiVersionsResponse:
        # Asked for each time: finalized features change while a connection is open.
        request = messages.ApiVersionsRequest(client_software_name="broker-cy-admin", client_software_version="1")
        return await self._caller.ask(
            request, messages.ApiVersionsResponse, lambda got: problem_of(got.error_code), node_id=broker_id
        )


async def finalize_features(caller: Caller, updates: Sequence[tuple[str, int, int]], what: str) -> None:
    """Ask for levels of features: name, level, and UpgradeType. Raises ClientError about `what`."""
    deadline = caller.deadline()
    await caller.ask(
        messages.UpdateFeaturesRequest(
            timeout_ms=deadline.left_ms,
            feature_updates=[
                messages.UpdateFeaturesRequest.FeatureUpdateKey(
                    feature=name, max_version_level=level, upgrade_type=upgrade_type
                )
                for name, level, upgrade_type in updates
            ],
        ),
        messages.UpdateFeaturesResponse,
        _update_problem,
        controller=True,
        deadline=deadline,
        what=what,
    )


def _update_problem(answer: messages.UpdateFeaturesResponse) -> Problem | None:
    problem = problem_of(answer.error_code, answer.error_message)
    for each in answer.results:
        problem = problem or problem_of(each.error_code, each.error_message)
    return problem


def _name_of(api_key: int) -> str:
    """`ListOffsets` for 2; the number for an API this version does not know."""
    try:
        words = ApiKey(api_key).name.split("_")
    except ValueError:
        return str(api_key)
    return "".join(word.capitalize() for word in words)
