"""A world with one copy flow between two clusters, in which answers get lost, leaders move, owners die and are fenced.

The machine is that of the product. Its actions are carried out at random times; an answer that got lost may belong to a
batch that was stored, that was not, or that will be. In the end everything works again, and the target must have:
exactly once, the committed records of the source, each once, in their order; else each at least once, and in order.
With a filter, the target has the records that it keeps, and the committed offsets are after those that it leaves out.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from random import Random
from typing import assert_never

from broker_mirror.copy.actions import (
    Action,
    Announce,
    Begin,
    End,
    Initialize,
    Load,
    Produce,
    Stage,
    Verdict,
    Write,
)
from broker_mirror.copy.flow import CopyMachine
from broker_mirror.copy.partition import Key, Piece
from broker_mirror.formats.offset_syncs import OffsetSync
from tests.sim.mirror_copy_clusters import FakePiece, Refusal, SourcePartition, Target

ROUND_MS = 5
FAULTS_MS = 8_000
END_MS = 400_000
COMMIT_MS = 5_000
"""The most time until the offsets of a flow that has reached the ends of the source are committed."""
VERDICTS = {"fenced": Verdict.FAILED, "order": Verdict.ORDER, "refused": Verdict.REFUSED}


class Owner:
    """A process with a machine. Nothing that is reported to a dead one has an effect."""

    def __init__(self, *, transactional: bool, syncs_in_target: bool) -> None:
        self.machine = CopyMachine(transactional=transactional, syncs_in_target=syncs_in_target, flush_interval_ms=300)
        self.identity = (-1, -1)
        self.is_dead = False
        self.fetching: set[Key] = set()


class World:
    """One seed. `counts`: what happened. `has_filter`: the flow has transforms that leave records out."""

    def __init__(self, seed: int, *, has_filter: bool = False) -> None:
        self.draw = Random(seed)
        self._has_filter = has_filter
        self.transactional = self.draw.random() < 0.7
        # Some worlds have no deaths, so that long pipelines are seen too.
        self._has_deaths = self.draw.random() < 0.7
        self.now_ms = 0
        self.counts: Counter[str] = Counter()
        self.keys = [("t", index) for index in range(self.draw.randrange(1, 4))]
        self.sources = {key: SourcePartition(self.draw) for key in self.keys}
        self.target = Target()
        self.owners: list[Owner] = []
        self.syncs: list[OffsetSync] = []
        self._events: list[tuple[int, int, Callable[[], None]]] = []
        self._number = 0
        self._value = 0
        # Since when all records were passed, and not all offsets committed; 0 before that.
        self._uncommitted_ms = 0
        # Leaders of the target that do not answer until a time.
        self._moved: dict[Key, int] = {}
        # The records of each partition of the source before it lost some.
        self._before: dict[Key, list[tuple[int, int]]] = {}

    # --- time

    def at(self, wait_ms: int, what: Callable[[], None]) -> None:
        self._number += 1
        heapq.heappush(self._events, (self.now_ms + wait_ms, self._number, what))

    def delay(self) -> int:
        return self.draw.choice((0, 1, 2, 5, 20, 60))

    @property
    def is_faulty(self) -> bool:
        return self.now_ms < FAULTS_MS

    def run(self) -> None:
        """Raises AssertionError if an invariant is violated."""
        self._own()
        self.at(0, self._round)
        self.at(0, self._fault)
        while self._events:
            self.now_ms, _, what = heapq.heappop(self._events)
            what()
            if not self.is_faulty and self._is_settled():
                break
            assert self.now_ms < END_MS, f"not settled: {self._lags()}, {self.owner.machine.stage}"
        self.check_end()

    # --- the world

    @property
    def owner(self) -> Owner:
        return self.owners[-1]

    def _own(self) -> None:
        owner = Owner(transactional=self.transactional, syncs_in_target=self.draw.random() < 0.5)
        owner.machine.assign({key: ("A.t", key[1]) for key in self.keys})
        self.owners.append(owner)

    def _round(self) -> None:
        for owner in self.owners[-2:]:
            if owner.is_dead:
                continue
            self._fetch(owner)
            for action in owner.machine.step(self.now_ms):
                self._carry_out(owner, action)
            if owner.machine.stage is Stage.ENDED:
                self.counts["ended"] += 1
                owner.is_dead = True
                if owner is self.owner:
                    self._own()
        self.at(ROUND_MS if self.is_faulty else 20, self._round)

    def _fault(self) -> None:
        if not self.is_faulty:
            self.target.forbidden.clear()
            return
        key = self.draw.choice(self.keys)
        match self.draw.randrange(150):
            case 0 if self._has_deaths:
                # kill -9, and another process with the same id.
                self.counts["kills"] += 1
                self.owner.is_dead = True
                self._own()
            case 1 if self._has_deaths:
                # The former owner goes on for a while.
                self.counts["usurped"] += 1
                self._own()
            case 2:
                self.counts["moved"] += 1
                self._moved[key] = self.now_ms + self.draw.choice((50, 500, 7_000))
            case 3:
                self.counts["forbidden"] += 1
                self.target.forbidden.add(("A.t", key[1]))
            case 4:
                self.target.forbidden.clear()
            case 5 if self.draw.random() < 0.3 and len(self.keys) > 1 and not self._before:
                self.counts["truncated"] += 1
                self._before[key] = self.sources[key].readable()
                self.sources[key].truncate()
            case 6:
                self.counts["compacted"] += 1
                self.sources[key].compact(
                    self.target.committed().get(key, 0) if self.draw.random() < 0.5 else self.sources[key].end // 2
                )
            case _:
                if key not in self._before:
                    values = [self._next_value() for _ in range(self.draw.randrange(1, 6))]
                    self.sources[key].produce(values, aborted=self.draw.random() < 0.15)
        self.at(self.draw.choice((5, 10, 40)), self._fault)

    def _next_value(self) -> int:
        self._value += 1
        return self._value

    def _lost(self) -> bool:
        return self.is_faulty and self.draw.random() < 0.04

    def keeps(self, value: int) -> bool:
        """Whether the transforms of the flow keep a record: they leave out whole batches, and parts of others."""
        return not self._has_filter or (value // 16 % 2 == 0 and value % 5 != 0)

    # --- what a host does

    def _fetch(self, owner: Owner) -> None:
        for key, offset in owner.machine.fetches(self.now_ms, self.keys).items():
            if key in owner.fetching:
                continue
            owner.fetching.add(key)
            self.at(self.delay(), partial(self._answer_fetch, owner, key, offset))

    def _answer_fetch(self, owner: Owner, key: Key, offset: int) -> None:
        source = self.sources[key]
        if offset > source.end or (source.is_other and key in self._before):
            owner.fetching.discard(key)
            owner.machine.problem(key, "truncated", self.now_ms, lasts=True)
            return
        found = source.fetch(offset, self.keeps)
        self.counts["filtered"] += found.filtered_to > 0 and not found.pieces

        def take() -> None:
            owner.fetching.discard(key)
            taken: list[Piece] = list(found.pieces)
            owner.machine.fetched(key, offset, taken, found.next_offset, source.end, found.filtered_to)

        # Another fetch may be on its way when this answer arrives.
        if self.is_faulty and self.draw.random() < 0.05:
            owner.fetching.discard(key)
        self.at(self.delay(), take)

    def _carry_out(self, owner: Owner, action: Action) -> None:
        match action:
            case Initialize():
                self.at(self.delay(), lambda: self._initialize(owner))
            case Load(keys):
                self.at(self.delay(), lambda: self._load(owner, keys))
            case Begin():
                self.at(self.delay(), lambda: owner.machine.began(owner.identity, self.now_ms))
            case Produce():
                self.at(self.delay(), lambda: self._produce(owner, action))
            case Write(offsets, syncs):
                self.at(self.delay(), lambda: self._write(owner, dict(offsets), syncs))
            case End(commit):
                self.at(self.delay(), lambda: self._end(owner, commit=commit))
            case Announce(syncs):
                self.syncs.extend(syncs)
            case _:
                assert_never(action)

    def _initialize(self, owner: Owner) -> None:
        if not owner.is_dead:
            owner.identity = self.target.initialize(transactional=self.transactional)
            self.at(self.delay(), lambda: owner.machine.initialized(owner.identity))

    def _load(self, owner: Owner, keys: Sequence[Key]) -> None:
        known = self.target.committed()
        owner.machine.loaded({key: known.get(key, 0) for key in keys}, {}, self.now_ms)

    def _produce(self, owner: Owner, action: Produce) -> None:
        piece = action.piece
        assert isinstance(piece, FakePiece)

        def store() -> int:
            return self.target.produce(
                action.target, action.identity, action.sequence, piece.values, transactional=self.transactional
            )

        def retry() -> None:
            owner.machine.refused(action, Verdict.RETRY, "no answer", self.now_ms)

        if self._moved.get(action.source, 0) > self.now_ms:
            self.at(self.delay(), retry)
            return
        if self._lost():
            self.counts["lost"] += 1
            if self.draw.random() < 0.7:
                self._quietly(store)
            elif self.draw.random() < 0.5:
                self.at(self.draw.randrange(200), lambda: self._quietly(store))
            self.at(self.delay() + 20, retry)
            return
        try:
            offset = store()
        except Refusal as refusal:
            verdict, text = VERDICTS[str(refusal)], str(refusal)
            self.at(self.delay(), lambda: owner.machine.refused(action, verdict, text, self.now_ms))
            return
        self.at(self.delay(), lambda: owner.machine.stored(action, offset))

    @staticmethod
    def _quietly(store: Callable[[], int]) -> None:
        try:
            store()
        except Refusal:
            pass

    def _write(self, owner: Owner, offsets: dict[Key, int], syncs: Sequence[OffsetSync]) -> None:
        if owner.is_dead:
            return
        try:
            self.target.write(owner.identity, offsets, transactional=self.transactional)
        except Refusal as refusal:
            text = str(refusal)
            self.at(self.delay(), lambda: owner.machine.failed(text, self.now_ms))
            return
        self.syncs.extend(syncs)
        if self._lost():
            self.at(self.delay(), lambda: owner.machine.failed("no answer", self.now_ms))
        else:
            self.at(self.delay(), owner.machine.written)

    def _end(self, owner: Owner, *, commit: bool) -> None:
        if owner.is_dead:
            return
        try:
            identity = self.target.end(owner.identity, commit=commit)
        except Refusal:
            self.counts["fenced"] += 1
            self.at(self.delay(), lambda: owner.machine.ended_by("fenced", fenced=True))
            return
        if self._lost():
            self.at(100, lambda: self._end(owner, commit=commit))
            return

        def ended() -> None:
            owner.identity = identity
            owner.machine.ended(commit=commit)

        self.at(self.delay(), ended)

    # --- invariants

    def _lags(self) -> dict[Key, int]:
        known = self.target.committed()
        return {
            key: source.end - max(known.get(key, 0), self._position(key))
            for key, source in self.sources.items()
            if key not in self._before
        }

    def _position(self, key: Key) -> int:
        each = self.owner.machine.partitions.get(key)
        return 0 if each is None or each.position is None else each.committed

    def _is_settled(self) -> bool:
        if any(self._lags().values()):
            return False
        if not self._has_filter or not self._has_uncommitted():
            return True
        self._uncommitted_ms = self._uncommitted_ms or self.now_ms
        assert self.now_ms - self._uncommitted_ms < COMMIT_MS, f"not committed: {self.target.committed()}"
        return False

    def _has_uncommitted(self) -> bool:
        """Whether committed offsets are not after all records: a flow that starts again would filter them once more."""
        known = self.target.committed()
        return any(
            known.get(key, 0) <= readable[-1][0]
            for key, source in self.sources.items()
            if key not in self._before and (readable := source.readable())
        )

    def check_end(self) -> None:
        """The target has what the source has."""
        for key, source in self.sources.items():
            readable = self._before.get(key, source.readable())
            expected = [value for _, value in readable if self.keeps(value)]
            found = [value for _, value in self.target.readable(("A.t", key[1]))]
            if key in self._before:
                self._check_prefix(key, expected, found)
            elif self.transactional:
                self._check_equal(key, expected, found)
            else:
                self._check_at_least_once(key, expected, found)
        self._check_syncs()

    def _check_equal(self, key: Key, expected: list[int], found: list[object]) -> None:
        """Compaction has removed some records from the source after they were copied."""
        kept = set(expected)
        assert [value for value in found if value in kept] == expected, f"{key}: the target differs: {found}"
        assert len(set(found)) == len(found), f"{key}: records are twice in the target"

    def _check_prefix(self, key: Key, expected: list[int], found: list[object]) -> None:
        if self.transactional:
            kept = set(expected)
            rest = [value for value in found if value in kept]
            assert rest == expected[: len(rest)], f"{key}: the target is no begin of the source"
            assert len(set(found)) == len(found), f"{key}: records are twice in the target"

    def _check_at_least_once(self, key: Key, expected: list[int], found: list[object]) -> None:
        assert set(expected) <= set(found), f"{key}: records are missing: {set(expected) - set(found)}"
        kept = set(expected)
        assert [value for value in dict.fromkeys(found) if value in kept] == expected, f"{key}: the order differs"
        if not self.counts["kills"] and not self.counts["usurped"]:
            # A table made of the target is that of the source. Nothing stops a former owner, as in MirrorMaker 2.
            last = [value for value in dict.fromkeys(reversed(found)) if value in kept]
            assert last == expected[::-1], f"{key}: the order of the last copies differs"

    def _check_syncs(self) -> None:
        """Each offset sync of a committed record names the copy of that record."""
        for sync in self.syncs:
            key = (sync.topic, sync.partition)
            if key in self._before:
                continue
            values = dict(self.sources[key].readable())
            log = self.target.logs["A.t", sync.partition]
            for index in range(sync.count):
                value = values.get(sync.source_offset - index)
                copy = log[sync.target_offset - index]
                assert copy is not None, f"{sync} names a marker"
                if value is not None:
                    assert self.keeps(value), f"{sync} names a record that was left out"
                    assert copy.value == value, f"{sync}: {copy.value} is no copy of {value}"
