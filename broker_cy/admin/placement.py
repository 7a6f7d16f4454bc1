"""Plans of reassignments: to drain brokers, to fill new ones, to balance, and to change the number of
replicas. Pure computation.

Every plan keeps these invariants, which tests/broker_cy/admin/test_placement.py checks with random clusters:

- a partition keeps its number of replicas, or gets the requested one, on different brokers;
- a replica moves only to a broker in service that is not cordoned, and that the plan does not empty;
- a replica that has to leave goes to a rack without another replica of the partition, as long as there is one; one
  that moves to even out brokers is never in a fuller rack than before; the same holds for hosts, after racks;
- a replica takes the place in the list of one that is replaced: those that stay keep their places;
- the preferred leaders that a drain takes from brokers are spread over the brokers that get their replicas.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from broker_cy.admin.metadata import TopicPartition
from broker_cy.client.errors import ClientError, Failure
from broker_cy.core.classes import dataclass
from broker_cy.reporting.numbers import plural

# Passes over all replicas of a plan that balances. Each pass only makes moves that even out the brokers, so that the
# first passes do nearly all of it.
PASSES_MAX = 10
# A move that evens the brokers out by less is not worth the copying; 1 is a whole broker's share.
_GAIN_MIN = 1e-4
# Topics that an error names.
TOPICS_NAMED_MAX = 10
# No broker has this id.
_NOBODY = -1


@dataclass(frozen=True, slots=True)
class BrokerSlot:
    """A broker as a place for replicas. `accepts`: it is in service and not cordoned; `host`: its advertised host."""

    broker_id: int
    rack: str | None
    accepts: bool = True
    host: str | None = None


@dataclass(frozen=True, slots=True)
class Placed:
    """A partition: its replicas with the preferred leader first, and the size of one replica."""

    partition: TopicPartition
    replicas: tuple[int, ...]
    size_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Move:
    """A change of a partition's replicas."""

    partition: TopicPartition
    before: tuple[int, ...]
    after: tuple[int, ...]
    size_bytes: int = 0

    @property
    def added(self) -> tuple[int, ...]:
        """The brokers that have to copy the partition."""
        return tuple(each for each in self.after if each not in self.before)

    @property
    def removed(self) -> tuple[int, ...]:
        return tuple(each for each in self.before if each not in self.after)

    @property
    def copied_bytes(self) -> int:
        """The bytes that all added replicas copy."""
        return self.size_bytes * len(self.added)


class Placement:
    """The replicas of a cluster, while a plan moves them."""

    def __init__(self, brokers: Iterable[BrokerSlot], partitions: Iterable[Placed]) -> None:
        self.brokers = {each.broker_id: each for each in brokers}
        self.partitions = {each.partition: each for each in partitions}
        self._now: dict[TopicPartition, tuple[int, ...]] = {key: each.replicas for key, each in self.partitions.items()}
        # Includes every broker that has replicas, even if it has left the cluster.
        holders = set(self.brokers) | {each for placed in self.partitions.values() for each in placed.replicas}
        self.replicas = dict.fromkeys(sorted(holders), 0)
        self.bytes = dict.fromkeys(sorted(holders), 0)
        # Partitions whose first replica is here: the controller makes it the leader.
        self.preferred = dict.fromkeys(sorted(holders), 0)
        self._held: dict[int, set[TopicPartition]] = {each: set() for each in holders}
        for placed in self.partitions.values():
            self.preferred[placed.replicas[0]] += 1
            for broker in placed.replicas:
                self.replicas[broker] += 1
                self.bytes[broker] += placed.size_bytes
                self._held[broker].add(placed.partition)
        self._changed: set[TopicPartition] = set()
        # The load that one replica, one byte and one preferred leader add to a broker.
        self._replica_share = 0.0
        self._byte_share = 0.0
        self._leader_share = 0.0

    def moves(self) -> tuple[Move, ...]:
        """The partitions that changed, by name."""
        return tuple(
            Move(key, self.partitions[key].replicas, after, self.partitions[key].size_bytes)
            for key, after in sorted(self._now.items())
            if after != self.partitions[key].replicas
        )

    def drain(self, leaving: Collection[int], *, shrink: bool = False) -> None:
        """Move every replica away from `leaving`. With `shrink` a partition loses replicas that have no other place, as
        long as one is left. Raises ClientError, naming the topics, if some have no other place.
        """
        self._check_known(leaving, among=self.replicas)
        targets = self._accepting(leaving)
        self._weigh(targets)
        stuck = set()
        # The largest first: the remaining imbalance at the end is small.
        for placed in sorted(self.partitions.values(), key=lambda each: (-each.size_bytes, each.partition)):
            key = placed.partition
            for broker in placed.replicas:
                if broker not in leaving:
                    continue
                free = [each for each in targets if each not in self._now[key]]
                if free:
                    leads = self._now[key][0] == broker
                    self._move(key, broker, min(free, key=lambda each: self._cost(key, broker, each, leads)))
                elif shrink and len(self._now[key]) > 1:
                    self._put(key, tuple(each for each in self._now[key] if each != broker))
                else:
                    stuck.add(key)
        if stuck:
            raise self._no_place(stuck, targets, shrink=shrink)
        self._spread_leaders(leaving)

    def _spread_leaders(self, leaving: Collection[int]) -> None:
        """Even out the preferred leaders that came from `leaving`, by exchanging places between new replicas of the
        same partition: nothing else is copied, and replicas that stay keep their places.
        """
        came = [key for key in sorted(self._changed) if self.partitions[key].replicas[0] in leaving]
        for _ in range(PASSES_MAX):
            moved = False
            for key in came:
                first, *others = self._now[key]
                new = [each for each in others if each not in self.partitions[key].replicas]
                best = min(new, key=lambda each: (self.preferred[each], each), default=first)
                if self.preferred[best] + 1 < self.preferred[first]:
                    swapped = {first: best, best: first}
                    self._put(key, tuple(swapped.get(each, each) for each in self._now[key]))
                    moved = True
            if not moved:
                return

    def _no_place(self, stuck: Collection[TopicPartition], targets: Sequence[int], *, shrink: bool) -> ClientError:
        topics = sorted({key.topic for key in stuck})
        listed = ", ".join(topics[:TOPICS_NAMED_MAX]) + (", ..." if len(topics) > TOPICS_NAMED_MAX else "")
        first = self.partitions[min(stuck)]
        names = ", ".join(map(str, targets)) or "none"
        remedy = (
            "add a broker first"
            if shrink
            else "add a broker first, or let them have fewer replicas (`brokers drain --shrink`)"
        )
        return ClientError(
            Failure.INVALID,
            f"{plural(len(stuck), 'partition')} of {plural(len(topics), 'topic')} ({listed}) cannot move: no other "
            f"broker can take a replica (brokers that accept replicas: {names}); {first.partition} has "
            f"{plural(len(first.replicas), 'replica')}, on {_listed(first.replicas)}: {remedy}",
        )

    def resize(self, factor: int, wanted: Callable[[TopicPartition], bool]) -> None:
        """Give each `wanted` partition `factor` replicas. The first one, the preferred leader, stays unless its broker
        accepts no replicas. Raises ClientError, naming a partition, if too few brokers accept replicas.
        """
        targets = self._accepting(())
        self._weigh(targets)
        for placed in sorted(self.partitions.values(), key=lambda each: (-each.size_bytes, each.partition)):
            key = placed.partition
            if not wanted(key):
                continue
            while len(self._now[key]) > factor:
                self._put(key, tuple(each for each in self._now[key] if each != self._dispensable(key)))
            while len(self._now[key]) < factor:
                free = [each for each in targets if each not in self._now[key]]
                if not free:
                    raise ClientError(
                        Failure.INVALID,
                        f"it cannot have {plural(factor, 'replica')}: {plural(len(self._now[key]), 'replica')} on "
                        f"{_listed(self._now[key])}, and no other broker can take one (brokers that accept replicas: "
                        f"{', '.join(map(str, targets)) or 'none'})",
                        what=f"partition {key}",
                    )
                added = min(free, key=lambda each: self._cost(key, _NOBODY, each))
                self._put(key, (*self._now[key], added))

    def _dispensable(self, key: TopicPartition) -> int:
        """The replica to remove: on a broker that accepts none, near another one, on the fullest broker."""
        replicas = self._now[key]

        def rank(broker: int) -> tuple[bool, bool, tuple[int, int], float, int]:
            known = self.brokers.get(broker)
            is_alive = known is not None and known.accepts
            clashes = self._clashes(key, broker, broker)
            return not is_alive, broker != replicas[0], clashes, self._load(broker), broker

        return max(replicas, key=rank)

    def fill(self, new: Collection[int], moves_max: int | None = None) -> None:
        """Move replicas of at most `moves_max` partitions to the brokers `new`, until these have their share. Raises
        ClientError if one of them accepts none.
        """
        self._check_known(new, among=self.brokers)
        for broker in new:
            if not self.brokers[broker].accepts:
                raise ClientError(Failure.INVALID, "it is cordoned or not in service", what=f"broker {broker}")
        self._even_out(sorted(new), moves_max)

    def balance(self, moves_max: int | None = None) -> None:
        """Even out the replicas and bytes of the brokers that accept replicas, by moving at most `moves_max` partitions
        (None: all that it takes): those first that make the largest difference.
        """
        self._even_out(self._accepting(()), moves_max)

    def _even_out(self, targets: Sequence[int], moves_max: int | None, passes_max: int = PASSES_MAX) -> None:
        places = self._accepting(())
        self._weigh(places)
        for _ in range(passes_max):
            moved = False
            for source in sorted(places, key=lambda each: (-self._load(each), each)):
                # The largest first: the remaining imbalance at the end is small.
                for key in sorted(self._held[source], key=lambda key: (-self.partitions[key].size_bytes, key)):
                    if moves_max is not None and len(self._changed) >= moves_max and key not in self._changed:
                        continue
                    moved |= self._improve(key, source, targets)
            if not moved:
                return

    def _improve(self, key: TopicPartition, source: int, targets: Sequence[int]) -> bool:
        """Move one replica to the broker that balances the load best; return whether one was moved."""
        replicas = self._now[key]
        here = self._clashes(key, source, source)
        free = [each for each in targets if each not in replicas and self._no_worse(key, source, each, here)]
        best = min(free, key=lambda each: (self._gain(key, source, each), each), default=None)
        if best is None or self._gain(key, source, best) >= -_GAIN_MIN:
            return False
        self._move(key, source, best)
        return True

    def _check_known(self, brokers: Collection[int], among: Collection[int]) -> None:
        for broker in brokers:
            if broker not in among:
                known = ", ".join(map(str, sorted(among))) or "none"
                raise ClientError(
                    Failure.INVALID, f"the cluster has no such broker; it has {known}", what=f"broker {broker}"
                )

    def _accepting(self, leaving: Collection[int]) -> list[int]:
        return [each.broker_id for each in self.brokers.values() if each.accepts and each.broker_id not in leaving]

    def _weigh(self, places: Sequence[int]) -> None:
        """Make the average of `places` a load of 1 in replicas and 1 in bytes."""
        replicas, size_bytes = sum(self.replicas.values()), sum(self.bytes.values())
        self._replica_share = len(places) / replicas if replicas else 0.0
        self._byte_share = len(places) / size_bytes if size_bytes else 0.0
        self._leader_share = len(places) / len(self.partitions) if self.partitions else 0.0

    def _load(self, broker: int) -> float:
        return self.replicas[broker] * self._replica_share + self.bytes[broker] * self._byte_share

    def _gain(self, key: TopicPartition, source: int, target: int) -> float:
        """How the sum of the squares of the brokers' loads changes if the replica moves; negative is better."""
        one, size = self._replica_share, self.partitions[key].size_bytes * self._byte_share
        apart = (self.replicas[target] - self.replicas[source]) * self._replica_share
        apart_bytes = (self.bytes[target] - self.bytes[source]) * self._byte_share
        return 2 * one * (apart + one) + 2 * size * (apart_bytes + size)

    def _no_worse(self, key: TopicPartition, source: int, target: int, here: tuple[int, int]) -> bool:
        in_rack, on_host = self._clashes(key, source, target)
        return in_rack <= here[0] and on_host <= here[1]

    def _clashes(self, key: TopicPartition, source: int, target: int) -> tuple[int, int]:
        """How many replicas are in the rack and on the host of `target`, except that on `source`, which is to move."""
        place = self.brokers.get(target)
        if place is None:
            return 0, 0
        others = [self.brokers[each] for each in self._now[key] if each != source and each in self.brokers]
        return (
            0 if place.rack is None else sum(each.rack == place.rack for each in others),
            0 if place.host is None else sum(each.host == place.host for each in others),
        )

    def _cost(
        self, key: TopicPartition, source: int, target: int, leads: bool = False
    ) -> tuple[tuple[int, int], float, int]:
        """The cost of `target`, the lowest is best; `leads`: the replica becomes the preferred leader."""
        load = self._load(target) + (self.preferred[target] * self._leader_share if leads else 0.0)
        return self._clashes(key, source, target), load, target

    def _move(self, key: TopicPartition, source: int, target: int) -> None:
        self._put(key, tuple(target if each == source else each for each in self._now[key]))

    def _put(self, key: TopicPartition, after: tuple[int, ...]) -> None:
        """Have the replicas of a partition on these brokers."""
        before, self._now[key] = self._now[key], after
        self.preferred[before[0]] -= 1
        self.preferred[after[0]] += 1
        size_bytes = self.partitions[key].size_bytes
        for broker in set(before).difference(after):
            self._held[broker].discard(key)
            self.replicas[broker] -= 1
            self.bytes[broker] -= size_bytes
        for broker in set(after).difference(before):
            self._held[broker].add(key)
            self.replicas[broker] += 1
            self.bytes[broker] += size_bytes
        if after == self.partitions[key].replicas:
            self._changed.discard(key)
        else:
            self._changed.add(key)


def moves_to(
    wanted: Mapping[TopicPartition, tuple[int, ...]], now: Mapping[TopicPartition, Placed]
) -> tuple[Move, ...]:
    """The moves that give each partition the replicas that a user listed; those that have them already are left out.

    Raises ClientError for an unknown partition, no replica, or one broker twice.
    """
    moves = []
    for key, replicas in wanted.items():
        placed = now.get(key)
        if placed is None:
            raise ClientError(Failure.INVALID, "the cluster has no such partition", what=f"partition {key}")
        if not replicas or len(set(replicas)) < len(replicas):
            raise ClientError(
                Failure.INVALID, f"replicas {_listed(replicas)}: one or more different brokers", what=f"partition {key}"
            )
        if replicas != placed.replicas:
            moves.append(Move(key, placed.replicas, replicas, placed.size_bytes))
    return tuple(moves)


def _listed(replicas: Iterable[int]) -> str:
    return ",".join(map(str, replicas)) or "none"
