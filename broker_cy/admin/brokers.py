"""The brokers and their replicas, cordoning (KIP-1066), and unregistering a broker that will not come back."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from broker_cy.admin.caller import Caller
from broker_cy.admin.cluster import BrokerInfo, ClusterCalls
from broker_cy.admin.configs import AlterOp, ConfigCalls, ConfigChange, ConfigResource, ResourceType
from broker_cy.admin.log_dirs import LogDir, LogDirCalls, entry_of
from broker_cy.admin.metadata import TopicInfo, TopicPartition
from broker_cy.admin.placement import BrokerSlot, Placed
from broker_cy.admin.topics import TopicCalls
from broker_cy.client.errors import ClientError, Failure, problem_of
from broker_cy.core.classes import dataclass
from broker_cy.wire import messages

CORDONED = "cordoned.log.dirs"
EVERY_DIR = "*"
# The first one that has a value names the directories.
_DIRECTORIES = ("log.dirs", "log.dir")


@dataclass(frozen=True, slots=True)
class BrokerState:
    """A broker and its replicas. `info` is None for one that still has replicas but no registration.

    `out_of_sync` are its replicas that are not in sync, `preferred` the partitions it should lead. The bytes are those
    of the replicas and of the volumes, None if the broker did not answer.
    """

    broker_id: int
    info: BrokerInfo | None
    replicas: int
    leaders: int
    preferred: int
    out_of_sync: int
    size_bytes: int | None
    usable_bytes: int | None
    total_bytes: int | None
    log_dirs: tuple[str, ...]
    cordoned_dirs: tuple[str, ...]

    @property
    def is_in_service(self) -> bool:
        return self.info is not None and not self.info.is_fenced

    @property
    def is_cordoned(self) -> bool:
        """Whether no directory takes new replicas."""
        return bool(self.log_dirs) and self.cordoned_dirs == self.log_dirs

    @property
    def rack(self) -> str | None:
        return None if self.info is None else self.info.rack


@dataclass(frozen=True, slots=True)
class ClusterReplicas:
    """The input of plans: the brokers, and every partition with the size of its largest replica.

    `unanswered` are the failures of brokers whose sizes are unknown; the partitions of `leaderless` have no leader.
    """

    brokers: tuple[BrokerState, ...]
    partitions: dict[TopicPartition, Placed]
    unanswered: dict[int, ClientError]
    leaderless: frozenset[TopicPartition] = frozenset()

    def slots(self) -> list[BrokerSlot]:
        return [
            BrokerSlot(each.broker_id, each.rack, each.is_in_service and not each.is_cordoned, each.info.host)
            for each in self.brokers
            if each.info is not None
        ]

    def broker(self, broker_id: int) -> BrokerState:
        """Raises ClientError for an unknown broker."""
        found = next((each for each in self.brokers if each.broker_id == broker_id), None)
        if found is None:
            known = ", ".join(str(each.broker_id) for each in self.brokers) or "none"
            raise ClientError(
                Failure.INVALID, f"the cluster has no such broker; it has {known}", what=f"broker {broker_id}"
            )
        return found


class BrokerCalls:
    """`client.brokers`."""

    def __init__(
        self, caller: Caller, cluster: ClusterCalls, topics: TopicCalls, log_dirs: LogDirCalls, configs: ConfigCalls
    ) -> None:
        self._caller = caller
        self._cluster = cluster
        self._topics = topics
        self._log_dirs = log_dirs
        self._configs = configs

    async def replicas(self) -> ClusterReplicas:
        """All brokers, registered or only listed as replicas, and all partitions. Raises ClientError."""
        described, topics, dirs = await asyncio.gather(
            self._cluster.describe(), self._topics.list_all(), self._log_dirs.describe()
        )
        sizes: dict[TopicPartition, int] = {}
        for directories in dirs.found.values():
            for directory in directories:
                for replica in directory.replicas:
                    key = TopicPartition(replica.topic, replica.partition)
                    sizes[key] = max(sizes.get(key, 0), replica.size_bytes)
        partitions = {
            (key := TopicPartition(topic.name, part.partition)): Placed(key, part.replicas, sizes.get(key, 0))
            for topic in topics
            for part in topic.partitions
        }
        infos = {each.broker_id: each for each in described.brokers}
        leaderless = frozenset(
            TopicPartition(topic.name, part.partition)
            for topic in topics
            for part in topic.partitions
            if part.is_offline
        )
        return ClusterReplicas(_states(infos, topics, dirs.found), partitions, dict(dirs.failed), leaderless)

    async def cordoned_dirs(self, broker_id: int) -> str | None:
        """The broker's own value of cordoned.log.dirs, empty without one; None if it does not know the setting. Raises
        ClientError.
        """
        resource = ConfigResource(ResourceType.BROKER, str(broker_id))
        entries = (await self._configs.describe([resource], names=[CORDONED])).whole()[resource]
        return next((entry.value or "" for entry in entries if entry.name == CORDONED), None)

    async def why_not_cordon(self, broker_id: int, dirs: Iterable[str] = (EVERY_DIR,)) -> str:
        """Why the broker would refuse `cordon`; empty if it would not. Raises ClientError if it does not answer."""
        if await self.cordoned_dirs(broker_id) is None:
            return f"broker {broker_id} does not know {CORDONED} (Kafka 4.3 or later)"
        resource = ConfigResource(ResourceType.BROKER, str(broker_id))
        change = ConfigChange(CORDONED, AlterOp.SET, ",".join(dirs))
        error = (await self._configs.alter({resource: [change]}, validate_only=True)).failed.get(resource)
        if error is not None and error.failure is not Failure.REFUSED:
            raise error
        return "" if error is None else str(error)

    async def entry_of(self, broker_id: int, path: str, paths: Iterable[str]) -> str:
        """The word of `log.dirs` for one of the directories `paths` of a broker, as `cordon` wants it. Raises
        ClientError.
        """
        resource = ConfigResource(ResourceType.BROKER, str(broker_id))
        entries = (await self._configs.describe([resource], names=_DIRECTORIES)).whole()[resource]
        values = {entry.name: entry.value for entry in entries}
        named = next((values[name] for name in _DIRECTORIES if values.get(name)), None) or ""
        return entry_of(path, paths, [each.strip() for each in named.split(",") if each.strip()])

    async def cordon(self, broker_id: int, dirs: Iterable[str] = (EVERY_DIR,)) -> None:
        """Let no new replica come to these directories (words of `log.dirs`, or `*`); the others take them. Raises
        ClientError.
        """
        await self._set_cordoned(broker_id, ConfigChange(CORDONED, AlterOp.SET, ",".join(dirs)))

    async def uncordon(self, broker_id: int) -> None:
        """Let every directory take new replicas again. Raises ClientError."""
        await self._set_cordoned(broker_id, ConfigChange(CORDONED, AlterOp.DELETE))

    async def _set_cordoned(self, broker_id: int, change: ConfigChange) -> None:
        resource = ConfigResource(ResourceType.BROKER, str(broker_id))
        (await self._configs.alter({resource: [change]})).whole()

    async def unregister(self, broker_id: int) -> None:
        """Remove the registration of a broker. One that runs is no longer in service until it is started again; the
        partitions keep their replicas on it. Raises ClientError: BROKER_ID_NOT_REGISTERED.
        """
        await self._caller.ask(
            messages.UnregisterBrokerRequest(broker_id=broker_id),
            messages.UnregisterBrokerResponse,
            lambda got: problem_of(got.error_code, got.error_message),
            controller=True,
            what=f"broker {broker_id}",
        )


def _states(
    infos: dict[int, BrokerInfo], topics: Iterable[TopicInfo], dirs: dict[int, tuple[LogDir, ...]]
) -> tuple[BrokerState, ...]:
    counts: dict[int, list[int]] = {broker: [0, 0, 0, 0] for broker in infos}
    none = [0, 0, 0, 0]
    for topic in topics:
        for part in topic.partitions:
            for place, broker in enumerate(part.replicas):
                mine = counts.setdefault(broker, list(none))
                mine[0] += 1
                mine[1] += broker == part.leader_id
                mine[2] += place == 0
                mine[3] += broker not in part.in_sync_replicas
    states = []
    for broker, (replicas, leaders, preferred, out_of_sync) in sorted(counts.items()):
        theirs = dirs.get(broker)
        states.append(
            BrokerState(
                broker,
                infos.get(broker),
                replicas,
                leaders,
                preferred,
                out_of_sync,
                None if theirs is None else sum(each.size_bytes for each in theirs),
                _total(None if theirs is None else [each.usable_bytes for each in theirs]),
                _total(None if theirs is None else [each.total_bytes for each in theirs]),
                tuple(each.path for each in theirs or ()),
                tuple(each.path for each in theirs or () if each.is_cordoned),
            )
        )
    return tuple(states)


def _total(parts: list[int | None] | None) -> int | None:
    """The sum; None if a part is not known."""
    if parts is None:
        return None
    known = [each for each in parts if each is not None]
    return sum(known) if len(known) == len(parts) else None
