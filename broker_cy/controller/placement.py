"""The placement of the replicas of new partitions on brokers, and the check of placements that users make.

As in Apache Kafka (StripedReplicaPlacer): the racks take turns, and in each rack its brokers; every partition begins
one rack further, and in each rack that it uses one broker further, so that leaders and followers are spread evenly;
fenced brokers come last in their rack and never lead. A rack all of whose brokers are fenced has its turn, too: a
replica there is better than a second one in another rack, once the broker is back. After as many partitions as there
are brokers in service, the order of racks and brokers is mixed, because the same brokers would otherwise follow each
other for ever.

What Kafka has not: two replicas of a partition are not placed on one host if that can be avoided, and as with racks, a
host whose brokers are fenced is preferred to one that has a replica already. Brokers whose first
listener, by name, advertises the same host are on one host: with `--shards`, they are processes of one machine, and
fail together. Within a rack, a follower is placed on the leader's lane if another host has it: shard i follows shard i.
"""

from __future__ import annotations

from collections.abc import Iterable
from uuid import UUID

from broker_cy.controller.rules import default_directory
from broker_cy.core import shard_ids
from broker_cy.core.classes import NamedTuple
from broker_cy.core.errors import ErrorCode, KafkaError
from broker_cy.metadata import features
from broker_cy.metadata.image import BrokerImage, MetadataImage
from broker_cy.metadata.records import VersionedRecord
from broker_cy.wire import messages


def host_of(broker: BrokerImage) -> str:
    """The host that the first listener, by name, advertises; a text of its own for a broker without listeners."""
    if not broker.listeners:
        return f"broker {broker.broker_id}"
    return broker.listeners[min(broker.listeners)].host


def takes_replicas(broker: BrokerImage) -> bool:
    """Whether new replicas may be placed on the broker: not while it stops, nor if all its log directories are cordoned
    (KIP-1066).
    """
    if broker.in_controlled_shutdown:
        return False
    return (
        broker.cordoned_log_dirs is None
        or not broker.log_dirs
        or bool(set(broker.log_dirs) - set(broker.cordoned_log_dirs))
    )


class _Mixer:
    """Mixes lists by a seed: always the same, because a state machine has no randomness (a linear congruential
    generator, Knuth's MMIX).
    """

    def __init__(self, seed: int) -> None:
        self._state = seed

    def mix(self, values: list[int]) -> None:
        for last in range(len(values) - 1, 0, -1):
            self._state = (self._state * 6364136223846793005 + 1442695040888963407) % 2**64
            other = (self._state >> 33) % (last + 1)
            values[last], values[other] = values[other], values[last]


class _Turns:
    """Brokers that take turns: each partition that uses one of them begins one further."""

    def __init__(self, brokers: Iterable[int], start: int) -> None:
        self.brokers = sorted(brokers)
        self._offset = start
        self._is_used = False

    def in_turn(self) -> list[int]:
        """The brokers in the order in which the next partition takes them."""
        first = self._offset % len(self.brokers) if self.brokers else 0
        return self.brokers[first:] + self.brokers[:first]

    def use(self) -> None:
        self._is_used = True

    def advance(self) -> None:
        self._offset += self._is_used
        self._is_used = False


class _Rack:
    """The brokers of one rack, those in service first."""

    def __init__(self, brokers: list[BrokerImage], start: int) -> None:
        self._active = _Turns((b.broker_id for b in brokers if not b.fenced), start)
        self._fenced = _Turns((b.broker_id for b in brokers if b.fenced), start)

    def candidates(self, *, leader: bool) -> list[int]:
        """The brokers in the order in which the next partition takes them."""
        active = self._active.in_turn()
        return active if leader else active + self._fenced.in_turn()

    def use(self, broker_id: int) -> None:
        """The broker has a replica of the partition that is being placed."""
        self._active.use()
        if broker_id in self._fenced.brokers:
            self._fenced.use()

    def advance(self) -> None:
        self._active.advance()
        self._fenced.advance()

    def mix(self, mixer: _Mixer) -> None:
        mixer.mix(self._active.brokers)
        mixer.mix(self._fenced.brokers)


class _Turn(NamedTuple):
    """Whose turn it was, by the place of a rack. `passed_over`, the rack of the leader, misses its next turn; -1: it
    did.
    """

    rack: int
    passed_over: int


class _Placer:
    def __init__(self, brokers: list[BrokerImage], start: int) -> None:
        self._hosts = {broker.broker_id: host_of(broker) for broker in brokers}
        by_rack: dict[str | None, list[BrokerImage]] = {}
        for broker in brokers:
            by_rack.setdefault(broker.rack, []).append(broker)
        names = sorted(by_rack, key=lambda rack: (rack is not None, rack or ""))
        self._racks = [_Rack(by_rack[name], start) for name in names]
        self._order = list(range(len(names)))
        self._offset = start
        self._mixer = _Mixer(start)
        self._fenced = {broker.broker_id for broker in brokers if broker.fenced}
        self._active = len(brokers) - len(self._fenced)
        self._placed = 0

    def place(self, replication_factor: int) -> tuple[int, ...]:
        """The replicas of the next partition, leader first."""
        if self._placed and self._placed % self._active == 0 and self._active > 1:
            self._mixer.mix(self._order)
            for rack in self._racks:
                rack.mix(self._mixer)
        first = self._offset % len(self._order)
        racks = [self._racks[i] for i in self._order[first:] + self._order[:first]]
        at = next(i for i, rack in enumerate(racks) if rack.candidates(leader=True))
        replicas = [racks[at].candidates(leader=True)[0]]
        racks[at].use(replicas[0])
        turn = _Turn(-1, at)
        while len(replicas) < replication_factor:
            turn = self._add(replicas, racks, turn)
        for rack in self._racks:
            rack.advance()
        self._offset += 1
        self._placed += 1
        return tuple(replicas)

    def _add(self, replicas: list[int], racks: list[_Rack], turn: _Turn) -> _Turn:
        """Add one replica, of the next rack that has a broker on another host than the replicas so far, on the leader's
        lane if it can be, or else of the next rack that has any broker left. Returns the turn of that rack.
        """
        hosts = {self._hosts[broker_id] for broker_id in replicas}
        fallback: tuple[int, _Turn] | None = None
        # Twice around: the leader's rack is passed over once.
        for _ in range(2 * len(racks)):
            at = (turn.rack + 1) % len(racks)
            is_passed_over = at == turn.passed_over
            turn = _Turn(at, -1 if is_passed_over else turn.passed_over)
            if is_passed_over:
                continue
            left = [b for b in racks[at].candidates(leader=False) if b not in replicas]
            elsewhere = [b for b in left if self._hosts[b] not in hosts]
            if elsewhere:
                replicas.append(self._on_lane(elsewhere, shard_ids.lane_of(replicas[0])))
                racks[at].use(replicas[-1])
                return turn
            if left and fallback is None:
                fallback = left[0], turn
        assert fallback is not None, "the replication factor was checked"
        replicas.append(fallback[0])
        racks[fallback[1].rack].use(fallback[0])
        return fallback[1]

    def _on_lane(self, candidates: list[int], lane: int) -> int:
        """The first of the candidates that is on the lane, or else the first one; a fenced one only if all are."""
        fenced = candidates[0] in self._fenced
        found = (b for b in candidates if shard_ids.lane_of(b) == lane and (fenced or b not in self._fenced))
        return next(found, candidates[0])


def place(
    brokers: Iterable[BrokerImage], partitions: int, replication_factor: int, start: int
) -> list[tuple[int, ...]]:
    """Replica lists, leader first, for `partitions` new partitions. `start` (not negative) determines the first broker.

    Raises KafkaError(INVALID_REPLICATION_FACTOR) with Kafka's message.
    """
    usable = [broker for broker in brokers if takes_replicas(broker)]
    if all(broker.fenced for broker in usable):
        raise KafkaError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            "All brokers are currently fenced, or have all their log directories cordoned.",
        )
    if replication_factor > len(usable):
        raise KafkaError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"The target replication factor of {replication_factor} cannot be reached because only "
            f"{len(usable)} broker(s) are registered or some brokers have all their log directories cordoned.",
        )
    placer = _Placer(usable, start)
    return [placer.place(replication_factor) for _ in range(partitions)]


def check_manual(state: MetadataImage, replicas: list[int], replication_factor: int | None) -> None:
    """Check a partition of a manual assignment; raises KafkaError(INVALID_REPLICA_ASSIGNMENT) with Kafka's message."""
    if not replicas:
        raise _bad_assignment("The manual partition assignment includes an empty replica list.")
    previous = None
    for broker_id in sorted(replicas):
        if broker_id not in state.brokers:
            raise _bad_assignment(
                f"The manual partition assignment includes broker {broker_id}, but no such broker is registered."
            )
        if broker_id == previous:
            raise _bad_assignment(f"The manual partition assignment includes the broker {broker_id} more than once.")
        previous = broker_id
    if replication_factor is not None and len(replicas) != replication_factor:
        raise _bad_assignment(
            f"The manual partition assignment includes a partition with {len(replicas)} replica(s), but this is not "
            f"consistent with previous partitions, which have {replication_factor} replica(s)."
        )


def _bad_assignment(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)


def in_sync_at_birth(state: MetadataImage, replicas: Iterable[int]) -> list[int]:
    """The initial in-sync replicas of a new partition: those of `replicas` that may lead. The first one leads."""
    return [r for r in replicas if (broker := state.brokers.get(r)) is not None and broker.is_active]


def new_partition(
    state: MetadataImage, topic_id: UUID, index: int, replicas: Iterable[int], isr: list[int]
) -> VersionedRecord:
    """The record that creates a partition."""
    version = features.partition_version(state.features.metadata_version)
    record = messages.PartitionRecord(
        partition_id=index,
        topic_id=topic_id,
        replicas=list(replicas),
        isr=isr,
        leader=isr[0],
        leader_epoch=0,
        partition_epoch=0,
    )
    if version >= 1:
        record.directories = [default_directory(state, replica) for replica in record.replicas]
    return VersionedRecord(record, version)
