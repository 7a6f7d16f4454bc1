"""The world's knowledge of a share group: which records were settled, by which answer, and which ones may be.

A record is settled when a member has got the answer to its acknowledgement. It is excused as soon as a member has sent
one, or its last delivery has begun: then the broker may settle it without telling the member.
"""

from __future__ import annotations

from collections import defaultdict
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple

from broker_cy.coordinator_services.coordinator_runtime import LoadState
from broker_cy.share.sessions import SessionKey, TopicPartition
from broker_cy.share.share_partition import SharePartition
from broker_cy.share.share_partitions import ShareKey
from broker_cy.wire.share_operations import Changed, OperatorAction
from tests.history.operations import Fate, Place, Send
from tests.sim.world.cluster import CLUSTER
from tests.sim.world.groups import LATE_US
from tests.sim.world.share_acts import Act, Acts, Run

if TYPE_CHECKING:
    from uuid import UUID

    from broker_cy.share_service.share_service import ShareService
    from tests.sim.world.machine import Machine
    from tests.sim.world.world import World

Piece = tuple["UUID", int]
GROUP = f"shares-{CLUSTER}"
# The settings of the group that every node has from its first start on.
GROUP_SETTINGS = {"share.auto.offset.reset": "earliest"}
# Records lock for so long, in every second world for the longer time.
LOCKS_MS = (1_000, 4_000)
DELIVERY_LIMITS = (3, 5, 5, 2)
ACQUIRED = 1
# Turns of a node between two looks at its share coordinators.
COORDINATORS_EVERY = 10


class Served(NamedTuple):
    """The server of the group on a node: a leadership, and the number of the share partition that it has loaded."""

    leader_epoch: int
    number: int


class Settled(NamedTuple):
    """When the answer came that settled a record, and whether an operator may redrive the record."""

    at_us: int
    is_archived: bool


class Lock(NamedTuple):
    """A member has a record from `got_us` on for sure, and at least until `until_us` unless the leader changes."""

    client: str
    got_us: int
    until_us: int
    served: Served


class Shares:
    def __init__(self, world: World) -> None:
        self._world = world
        self.lock_ms = LOCKS_MS[world.plan.seed % len(LOCKS_MS)]
        self.limit = DELIVERY_LIMITS[world.plan.seed // 2 % len(DELIVERY_LIMITS)]
        self._operations = 0
        self.acts = Acts(world)
        # By partition: the values that a producer was told of; the answers that settled an offset; the offsets that may
        # be settled; the greatest start of the log, before which records were deleted.
        self._acked: dict[Place, dict[int, str]] = defaultdict(dict)
        self._settled: dict[Place, dict[int, Settled]] = defaultdict(dict)
        self._excused: dict[Place, set[int]] = defaultdict(set)
        self._floors: dict[Place, int] = defaultdict(int)
        self._passed: dict[Place, int] = defaultdict(int)
        self._locks: dict[tuple[Place, int], Lock] = {}
        self._deliveries: dict[tuple[Place, int, Served], int] = defaultdict(int)
        # By partition: the newest leadership that has loaded the state of the group, and when that was seen.
        self._newest: dict[Place, int] = defaultdict(int)
        self._newest_us: dict[Place, int] = {}
        # By host and partition: the share partition with its number, and what was in flight after the last turn; and
        # the members that had it in their sessions then.
        self._known: dict[tuple[str, ShareKey], tuple[SharePartition, int, list[Run]]] = {}
        self._members: dict[tuple[str, ShareKey], set[str]] = {}
        self._numbers = 0

    # --- what members do

    def served(self, host: str, piece: Piece) -> Served | None:
        """Return the server of the partition on a node now."""
        found = self._known.get((host, ShareKey(GROUP, TopicPartition(*piece))))
        return None if found is None else Served(found[0].leader_epoch, found[1])

    def is_newest(self, piece: Piece, served: Served | None) -> bool:
        """Whether no newer leader has loaded the state. A leader that does not know that it was replaced delivers any
        records, as in Kafka: only its acknowledgements fail.
        """
        return served is not None and served.leader_epoch >= self._newest[place_of_share(piece)]

    def sending(self, piece: Piece, offset: int, client: str, *, settles: bool) -> None:
        """A member sends the acknowledgement of a record, or gives it up."""
        place = place_of_share(piece)
        if settles:
            self._excused[place].add(offset)
        self.unlock(piece, offset, client)

    def unlock(self, piece: Piece, offset: int, client: str) -> None:
        key = place_of_share(piece), offset
        if key in self._locks and self._locks[key].client == client:
            del self._locks[key]

    def is_locked(self, piece: Piece, offset: int, got_us: int) -> bool:
        """Whether the lock that a member got by a request of then surely goes on."""
        is_sure = self.acts.is_sure(place_of_share(piece), offset, got_us)
        return is_sure and self._world.time.now_us < got_us + self.lock_ms * 1000 - LATE_US

    def written(self, piece: Piece, offset: int, sent_us: int, served: Served | None) -> None:
        """An acknowledgement of a locked record that was sent then succeeded, by the leader that has delivered the
        record. Raises AssertionError if a newer one had loaded the state before: then its write is fenced. Without a
        write, a leader accepts acknowledgements of records that it has passed: others have settled them.
        """
        place = place_of_share(piece)
        if served is None or offset < self._floors[place] or sent_us <= self._newest_us.get(place, sent_us):
            return
        assert served.leader_epoch >= self._newest[place], (
            f"{place}: {offset} is acknowledged in the leader epoch {served.leader_epoch} after {self._newest[place]}"
        )

    def settled(self, piece: Piece, offset: int, sent_us: int, *, is_archived: bool) -> None:
        """The answer to a request of then that settles a record has come. An operator may have redriven an archived one
        meanwhile.
        """
        place = place_of_share(piece)
        if not is_archived or self.acts.is_sure(place, offset, sent_us):
            self._settled[place].setdefault(offset, Settled(self._world.time.now_us, is_archived))

    def operating(self, action: OperatorAction, piece: Piece, offsets: range) -> Act:
        """An operator sends a request that may change any of these records."""
        place = place_of_share(piece)
        for offset in offsets:
            self._locks.pop((place, offset), None)
            settled = self._settled[place].get(offset)
            if action is OperatorAction.REJECT:
                self._excused[place].add(offset)
            elif action is OperatorAction.REDRIVE and settled is not None and settled.is_archived:
                del self._settled[place][offset]
        return self.acts.begin(action, place, offsets)

    def operated(self, act: Act, changed: Changed) -> None:
        """The newest leader has answered an act. Raises AssertionError if the promise of the answer is broken."""
        if self.acts.promised(act, changed) and act.action is OperatorAction.REJECT:
            for offset in act.states:
                self._settled[act.place].setdefault(offset, Settled(self._world.time.now_us, True))

    def in_flight(self, piece: Piece) -> tuple[str, list[Run]]:
        """The newest leader of a share partition, and the records that it had in flight after its last turn. An empty
        name without one.
        """
        key = ShareKey(GROUP, TopicPartition(*piece))
        found = [(share.leader_epoch, host, runs) for (host, of), (share, _, runs) in self._known.items() if of == key]
        _, host, runs = max(found, key=itemgetter(0), default=(0, "", list[Run]()))
        return host, runs

    def deliveries_max(self, piece: Piece, offset: int) -> int:
        """The greatest delivery count of a record."""
        return self.limit + 2 * self.acts.redrives(place_of_share(piece), offset)

    def delivered(self, piece: Piece, offset: int, client: str, sent_us: int, served: Served | None) -> None:
        """A member has got a record by a request that it sent then; `served` is None unless it was the newest leader
        from the request to the answer. Raises AssertionError if it must not get it.
        """
        if served is None:
            return
        place, now_us = place_of_share(piece), self._world.time.now_us
        name = f"{place[0]}-{place[1]}: {offset}"
        settled = self._settled[place].get(offset)
        assert settled is None or settled.at_us >= sent_us, (
            f"{name} is delivered to {client} after its acknowledgement was answered"
        )
        lock = self._locks.get((place, offset))
        if lock is not None and lock.client != client and lock.served == served:
            assert lock.until_us <= now_us or lock.got_us >= sent_us, f"{lock.client} has {name}, and {client} gets it"
        self._locks.pop((place, offset), None)
        if self.acts.is_sure(place, offset, sent_us):
            self._locks[place, offset] = Lock(client, now_us, sent_us + self.lock_ms * 1000 - LATE_US, served)
        self._deliveries[place, offset, served] += 1
        count = self._deliveries[place, offset, served]
        most = self.limit + self.acts.redrives(place, offset)
        assert count <= most, f"{name} is delivered {count} times by one leader"

    def expected(self, piece: Piece, offset: int) -> str | None:
        """The value at an offset, if a producer was told of it."""
        self._read_history()
        return self._acked[place_of_share(piece)].get(offset)

    def left(self) -> list[tuple[Place, int]]:
        """The records that a producer was told of, and that were neither settled nor excused; and those that operators
        have made available again.
        """
        self._read_history()
        return self.acts.owed() + [
            (place, offset)
            for place, offsets in self._acked.items()
            for offset in offsets
            if offset >= self._floors[place] and offset not in self._excused[place]
        ]

    def _read_history(self) -> None:
        """Take what was recorded since the last call."""
        operations = self._world.recorder.operations
        for each in operations[self._operations :]:
            if (
                isinstance(each, Send)
                and each.fate is Fate.ACKED
                and each.offset is not None
                and each.place[0][0] == "t"
            ):
                self._acked[_short(each.place)][each.offset] = each.value
        self._operations = len(operations)

    # --- after each turn of a node

    def check(self, machine: Machine) -> None:
        """Raises AssertionError if a start offset passes a record that was not settled, if a session has ended and its
        member keeps records, or if a share coordinator does not know the newest leader.
        """
        assert machine.server is not None
        if machine.turns % COORDINATORS_EVERY == 0:
            self._check_coordinators(machine)
        service: ShareService = machine.server.broker.share
        here = {key: share for key in service.table if (share := service.table.get(key)) is not None}
        for known in [each for each in self._known if each[0] == machine.host and each[1] not in here]:
            del self._known[known]
        for key, share in here.items():
            if not share.is_active:
                continue
            place = place_of_share(key.topic)
            partition = machine.server.broker.partitions.by_id[key.topic.topic_id.bytes][key.topic.partition]
            if partition is not None and (log := partition.log) is not None:
                # The end of the process may undo a deletion, and not the move of the start offset.
                self._floors[place] = max(self._floors[place], log.log_start_offset)
            before = self._known.get((machine.host, key))
            runs = share.in_flight()
            if before is None or before[0] is not share:
                self._numbers += 1
                self._known[machine.host, key] = share, self._numbers, runs
                if share.leader_epoch > self._newest[place]:
                    self._newest[place], self._newest_us[place] = share.leader_epoch, self._world.time.now_us
            else:
                self._known[machine.host, key] = share, before[1], runs
                if not machine.is_stopping:
                    self._check_holders(machine.host, service, key, before[2], runs)
            self._members[machine.host, key] = _members(service, key, runs)
            if share.leader_epoch >= self._newest[place]:
                self.acts.see(place, runs, share.start_offset, self._floors[place])
            for first, last, _, count, *_ in runs:
                if count >= self.limit:
                    self._excused[place].update(range(first, last + 1))
            if share.start_offset > self._passed[place]:
                self._check_start(machine.host, place, share.start_offset)

    def _check_coordinators(self, machine: Machine) -> None:
        assert machine.server is not None
        if not self._world.keeps_unsynced:
            # The state topic has min.insync.replicas=1: a power cut may take the only copy of the newest epoch.
            return
        service = machine.server.broker.share_state
        for index, runtime in service.runtimes.items():
            if runtime.state is not LoadState.ACTIVE or self._world.cluster.has_deposed_leader(service.topic, index):
                continue
            for key, entry in runtime.machine.entries.items():
                place = place_of_share((key.topic_id, key.partition))
                assert entry.leader_fence >= self._newest[place], (
                    f"{machine.host}: the share coordinator knows the leader epoch {entry.leader_fence} of {place}, "
                    f"and {self._newest[place]} has loaded the state"
                )

    def _check_start(self, host: str, place: Place, start: int) -> None:
        self._read_history()
        acked, excused = self._acked[place], self._excused[place]
        for offset in range(max(self._passed[place], self._floors[place]), start):
            assert offset not in acked or offset in excused, (
                f"{host}: the start offset {start} of {place} passes {offset}, which is not settled"
            )
        self._passed[place] = start

    def _check_holders(
        self, host: str, service: ShareService, key: ShareKey, before: list[Run], after: list[Run]
    ) -> None:
        holders = {holder for *_, holder, _, is_pending in before if holder is not None and not is_pending}
        # As in Kafka, a session that replaces one may have other partitions, and only these are released at its end.
        for holder in sorted(holders & self._members.get((host, key), set())):
            if service.sessions.get(SessionKey(key.group_id, holder)) is None:
                kept = _held(before, holder) & _held(after, holder)
                assert not kept, f"{host}: {holder} has no session, and keeps {sorted(kept)} of {key.topic}"


def _members(service: ShareService, key: ShareKey, runs: list[Run]) -> set[str]:
    """The holders of records that have the partition in their sessions."""
    sessions = {
        holder: service.sessions.get(SessionKey(key.group_id, holder))
        for *_, holder, _, _ in runs
        if holder is not None
    }
    return {holder for holder, session in sessions.items() if session is not None and key.topic in session.partitions}


def _held(runs: list[Run], holder: str) -> set[int]:
    return {
        offset
        for first, last, state, _, by, _, is_pending in runs
        if by == holder and state == ACQUIRED and not is_pending
        for offset in range(first, last + 1)
    }


def place_of_share(piece: Piece | TopicPartition) -> Place:
    return piece[0].hex[:8], piece[1]


def _short(place: Place) -> Place:
    """A partition by the id of its topic alone."""
    return place[0].partition("@")[2], place[1]
