"""A correct log with transactions in a few lines, and clients that use it: clean histories of any shape."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from tests.history.operations import (
    Assign,
    Compact,
    Crash,
    Delete,
    Fate,
    Operation,
    Outcome,
    Place,
    Poll,
    Read,
    Recorder,
    Seek,
    Send,
    Transaction,
)

PLACES: list[Place] = [("t", 0), ("t", 1), ("c", 0)]
COMPACTED: Place = ("c", 0)
KEYS = ("k", "l", "m")
PRODUCERS = ("x", "y")
CONSUMERS = ("a", "b", "c", "d")


@dataclass
class Entry:
    value: str | None
    """None for the marker that ends a transaction, which also takes an offset, and for records that compaction
    removed."""
    transaction: str | None
    key: str = ""


@dataclass
class Open:
    name: str
    places: set[Place] = field(default_factory=set)


class Model:
    """Two partitions and a compacted one, two transactional producers, a plain one, and consumers of both isolation
    levels.
    """

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.recorder = Recorder()
        self.logs: dict[Place, list[Entry]] = {place: [] for place in PLACES}
        self.starts: dict[Place, int] = dict.fromkeys(PLACES, 0)
        self.aborted: set[str] = set()
        self.open: dict[str, Open] = {}
        self.positions: dict[str, dict[Place, int]] = {}
        self.count = 0

    def history(self, steps: int) -> list[Operation]:
        self.recorder.add(Compact(COMPACTED))
        for consumer in CONSUMERS:
            self.assign(consumer)
        actions = [self.plain, self.plain, self.transact, self.transact, self.end, self.poll, self.poll, self.move]
        for _ in range(steps):
            if self.random.random() < 0.03:
                self.delete()
            if self.random.random() < 0.1:
                self.compact()
            self.random.choice(actions)()
        for producer in PRODUCERS:
            self.close(producer)
        for consumer in CONSUMERS:
            self.assign(consumer, from_start=True)
            for _ in range(2):
                self.read(consumer, 1 << 30)
        return self.recorder.operations

    def name(self) -> str:
        self.count += 1
        return f"v{self.count}"

    def append(self, place: Place, value: str, transaction: str | None) -> None:
        """Some acknowledgements are lost, before or after the record is written, and some records are refused."""
        kind = self.random.choices(["acked", "refused", "before", "after"], [20, 1, 1, 1])[0]
        key = self.random.choice(KEYS)
        offset = len(self.logs[place])
        if kind in ("acked", "after"):
            self.logs[place].append(Entry(value, transaction, key))
        fate = {"acked": Fate.ACKED, "refused": Fate.REFUSED}.get(kind, Fate.UNKNOWN)
        self.recorder.add(Send(value, place, fate, offset if kind == "acked" else None, transaction, key))

    def plain(self) -> None:
        self.append(self.random.choice(PLACES), self.name(), None)

    def transact(self) -> None:
        producer = self.random.choice(PRODUCERS)
        opened = self.open.setdefault(producer, Open(f"T{self.name()}"))
        place = self.random.choice(PLACES)
        opened.places.add(place)
        self.append(place, self.name(), opened.name)

    def end(self) -> None:
        self.close(self.random.choice(PRODUCERS))

    def close(self, producer: str) -> None:
        opened = self.open.pop(producer, None)
        if opened is None:
            return
        commit = self.random.random() < 0.6
        # If the outcome is not reported, a requested commit may end as an abort.
        told = self.random.random() < 0.8
        asked = self.recorder.now() if commit or (not told and self.random.random() < 0.5) else None
        if not commit:
            self.aborted.add(opened.name)
        for place in opened.places:
            self.logs[place].append(Entry(None, opened.name))
        outcome = (Outcome.COMMITTED if commit else Outcome.ABORTED) if told else Outcome.UNKNOWN
        if not told:
            self.recorder.add(Crash(producer))
        self.recorder.add(Transaction(opened.name, outcome, asked))

    def delete(self) -> None:
        """Some requests have no effect, and some delete fewer records than requested."""
        place = self.random.choice(PLACES)
        offset = self.random.randint(0, len(self.logs[place]))
        self.recorder.add(Delete(place, offset, self.recorder.now()))
        if self.random.random() < 0.8:
            self.starts[place] = max(self.starts[place], offset)

    def compact(self) -> None:
        """Remove some of the records that compaction may remove: older records of a key, and aborted ones."""
        newest: set[str] = set()
        opened = {each.name for each in self.open.values()}
        log = self.logs[COMPACTED]
        stable = next((at for at, entry in enumerate(log) if entry.transaction in opened), len(log))
        for entry in reversed(log[:stable]):
            if entry.value is None:
                continue
            aborted = entry.transaction in self.aborted
            if (aborted or entry.key in newest) and self.random.random() < 0.7:
                entry.value = None
            elif not aborted:
                newest.add(entry.key)

    def assign(self, consumer: str, *, from_start: bool = False) -> None:
        if self.random.random() < 0.5:
            self.recorder.add(Crash(consumer))
        committed = CONSUMERS.index(consumer) % 2 == 0
        start = {place: 0 if from_start else self.random.randint(0, len(log)) for place, log in self.logs.items()}
        self.positions[consumer] = start
        known = from_start or self.random.random() < 0.7
        self.recorder.add(Assign(consumer, committed, {place: at if known else None for place, at in start.items()}))

    def move(self) -> None:
        consumer = self.random.choice(CONSUMERS)
        if self.random.random() < 0.3:
            self.assign(consumer)
            return
        place = self.random.choice(PLACES)
        offset = self.random.randint(0, len(self.logs[place]))
        self.positions[consumer][place] = offset
        self.recorder.add(Seek(consumer, place, offset))

    def poll(self) -> None:
        self.read(self.random.choice(CONSUMERS), self.random.randint(1, 6))

    def read(self, consumer: str, limit: int) -> None:
        """Read up to `limit` offsets of each partition; only some polls report the consumer's position."""
        committed = CONSUMERS.index(consumer) % 2 == 0
        opened = {each.name for each in self.open.values()}
        records = []
        for place, position in self.positions[consumer].items():
            log = self.logs[place]
            # A consumer whose position was deleted continues at the log start.
            position = max(position, self.starts[place])
            end = len(log)
            if committed:
                end = next((at for at, entry in enumerate(log) if entry.transaction in opened), end)
            end = max(position, min(end, position + limit))
            for offset in range(position, end):
                entry = log[offset]
                if entry.value is not None and not (committed and entry.transaction in self.aborted):
                    records.append(Read(place, offset, entry.value))
            self.positions[consumer][place] = end
        said = dict(self.positions[consumer]) if self.random.random() < 0.5 else {}
        self.recorder.add(Poll(consumer, self.recorder.now(), tuple(records), said))
