"""Commands for a share partition, as lines of text: KafkaSharePartition.java runs them on Kafka's, `Ours` on ours.

Both answer with the same lines: the result, the states to write, and the whole state. Neighboring records with equal
states are one.
"""

from __future__ import annotations

import random
from collections.abc import Iterable

from broker_cy.share import acknowledging, acquiring
from broker_cy.share.read_batches import ReadBatches
from broker_cy.share.share_partition import SharePartition
from broker_cy.share.state_write import AcknowledgeError, LoadError, StateWrite

AVAILABLE, ACQUIRED, ACKNOWLEDGED, ARCHIVED = 0, 1, 2, 4
LEADER_EPOCH = 7
MEMBERS = ("a", "b", "c")


def _parts(text: str) -> list[list[str]]:
    return [] if text == "-" else [part.split(":") for part in text.split(",")]


def _joined(runs: Iterable[tuple[int, int, str]]) -> list[str]:
    """Return "first-last:text" for each run, with equal neighbors as one."""
    found: list[tuple[int, int, str]] = []
    for first, last, text in runs:
        if found and found[-1][1] + 1 == first and found[-1][2] == text:
            found[-1] = (found[-1][0], last, text)
        else:
            found.append((first, last, text))
    return [f"{first}-{last}:{text}" for first, last, text in found]


class Ours:
    """The commands of KafkaSharePartition.java, on our machine."""

    def __init__(self) -> None:
        self.partition = SharePartition(LEADER_EPOCH)
        self.now_ms = 1
        self.writes: dict[int, StateWrite] = {}
        self._step = 0

    def run(self, line: str) -> str:
        word, *rest = line.split(" ")
        self._step += 1
        if word == "new":
            self._renew(*map(int, rest))
            return "new"
        answer = getattr(self, f"_{word}")(*rest)
        return f"{answer} {self.state()}"

    def _renew(self, limit: int, lock_ms: int, records_max: int) -> None:
        self.partition = SharePartition(LEADER_EPOCH)
        self.partition.configure(lock_ms, limit, records_max, True)
        self.now_ms = 1
        self.writes = {}
        self._step = 0

    def _load(self, state_epoch: str, start: str, batches: str) -> str:
        assert self.partition.begin()
        try:
            self.partition.load(int(state_epoch), int(start), [tuple(map(int, part)) for part in _parts(batches)])  # type: ignore[misc]
        except LoadError:
            return "failed"
        return "loaded"

    def _acquire(self, member: str, mode: str, batch_size: str, most: str, fetch: str, text: str) -> str:
        parts = _parts(text)
        read = ReadBatches(
            [(int(part[0]), int(part[1])) for part in parts], {int(part[0]) for part in parts if len(part) > 2}
        )
        found = acquiring.acquire(
            self.partition, member, mode == "1", int(batch_size), int(most), int(fetch), read, self.now_ms
        )
        return " ".join(["acquired", *(f"{first}-{last}:{count}" for first, last, count in found)])

    def _ack(self, member: str, text: str) -> str:
        batches = [(int(first), int(last), bytes(map(int, types))) for first, last, types in _parts(text)]
        try:
            return "done" + self._written_text(acknowledging.acknowledge(self.partition, member, batches, self.now_ms))
        except AcknowledgeError as error:
            return error.code.name

    def _release(self, member: str) -> str:
        return "done" + self._written_text(acknowledging.release(self.partition, member))

    def _tick(self, now_ms: str) -> str:
        self.now_ms = int(now_ms)
        return "ticked" + self._written_text(acknowledging.expire(self.partition, self.now_ms))

    def _written(self, number: str) -> str:
        acknowledging.written(self.partition, self.writes.pop(int(number)))
        return "ended"

    def _failed(self, number: str) -> str:
        acknowledging.failed(self.partition, self.writes.pop(int(number)))
        return "ended"

    def _logstart(self, offset: str) -> str:
        self.partition.move_log_start(int(offset))
        return "moved"

    def _written_text(self, write: StateWrite | None) -> str:
        if write is None:
            return ""
        self.writes[self._step] = write
        runs = _joined((first, last, f"{count}:{state}") for first, last, count, state in sorted(write.batches))
        head = f" write {self._step} {write.state_epoch} {write.leader_epoch} {write.start_offset}"
        return " ".join([f"{head} {write.delivery_complete_count}", *runs])

    def state(self) -> str:
        partition = self.partition
        runs = _joined(
            (first, last, f"{state}:{count}:{member if state == ACQUIRED else ''}{'?' if is_pending else ''}")
            for first, last, state, count, member, _deadline, is_pending in partition.in_flight()
        )
        can = "can" if partition.can_acquire() else "full"
        head = f"| {partition.start_offset} {partition.end_offset} {partition.next_fetch_offset()} {can}"
        return " ".join([f"{head} {partition.delivery_complete_count} |", *runs])


class Author:
    """Writes a random sequence of commands: what a group, a log and a persister could do to a share partition.

    It leaves out what Kafka 4.3.1 does wrong: a log that begins within a batch whose write is under way, or in a hole;
    an acknowledgement that begins in a hole; a full share partition whose available records are no longer in the log;
    an aborted batch that begins before the records in flight; a failed write of records that are no longer in the log;
    a gap whose records are no longer in the log.
    """

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.ours = Ours()
        self.lines: list[str] = []
        self.answers: list[str] = []
        self.log_start = 0
        # Batches of the log, which grows as it is read: (base offset, last offset, whether aborted).
        self.log: list[tuple[int, int, bool]] = []
        self.sizes = self.rng.choice([(1, 1), (1, 5), (5, 20), (1, 40)])
        self.holes = self.rng.choice([0.0, 0.0, 0.3])
        self.aborts = self.rng.choice([0.0, 0.0, 0.2])

    def say(self, line: str) -> None:
        self.lines.append(line)
        self.answers.append(self.ours.run(line))

    def write(self, steps: int) -> None:
        rng = self.rng
        self.say(f"new {rng.choice([2, 3, 5, 5, 10])} {rng.choice([100, 300])} {rng.choice([20, 60, 200])}")
        self._begin()
        acts = (self._fetch, self._fetch, self._fetch, self._acknowledge, self._acknowledge, self._acknowledge)
        rare = (self._release, self._tick, self._tick, self._log_start, self._compact, self._stray)
        for _ in range(steps):
            rng.choice(acts if rng.random() < 0.75 else rare)()
            while self.ours.writes and rng.random() < 0.7:
                self._end_write()

    def _begin(self) -> None:
        rng = self.rng
        start = at = rng.choice([0, 0, 7, 100])
        parts = []
        if rng.random() < 0.5:
            for _ in range(rng.randrange(1, 5)):
                at += rng.choice([0, 0, 3, 12])
                size = rng.randint(1, 15)
                state = rng.choice([AVAILABLE, ACKNOWLEDGED, ARCHIVED])
                parts.append(f"{at}:{at + size - 1}:{rng.choice([1, 1, 2, 4])}:{state}")
                at += size
        self.log_start = start
        self._grow(max(0, start - rng.choice([0, 0, 4])), at + 30)
        self.say(f"load {rng.randrange(3)} {start} {','.join(parts) or '-'}")

    def _grow(self, base: int, end: int) -> None:
        while base < end:
            if self.rng.random() < self.holes:
                base += self.rng.randint(1, 8)
            size = self.rng.randint(*self.sizes)
            self.log.append((base, base + size - 1, self.rng.random() < self.aborts))
            base += size

    def _fetch(self) -> None:
        rng = self.rng
        offset = self.ours.partition.next_fetch_offset()
        if not self.ours.partition.can_acquire() and rng.random() < 0.9:
            return
        self._grow(self.log[-1][1] + 1, offset + 60)
        read = [batch for batch in self.log if batch[1] >= max(offset, self.log_start)][: rng.choice([1, 2, 5, 30])]
        if offset < read[0][0] and self._is_hazard(offset, read[0][0]):
            return
        runs = self.ours.partition.in_flight()
        is_gap = offset < self.ours.partition.end_offset and not any(run[0] <= offset <= run[1] for run in runs)
        if is_gap and offset < read[0][0]:
            return
        first = runs[0][0] if runs else self.ours.partition.start_offset
        if any(aborted and (base < first or self._is_hazard(base, last + 1)) for base, last, aborted in read):
            return
        if self.ours.partition.can_acquire() and read[0][0] > self.ours.partition.end_offset >= offset:
            return
        text = ",".join(f"{base}:{last}{':a' if aborted else ''}" for base, last, aborted in read)
        mode, size, most = rng.choice("001"), rng.choice([1, 5, 50, 500]), rng.choice([1, 3, 10, 50, 500])
        self.say(f"acquire {rng.choice(MEMBERS)} {mode} {size} {most} {offset} {text}")

    def _is_hazard(self, first: int, end: int) -> bool:
        """Whether a write is under way whose batch may reach over one of the two offsets."""
        runs = self.ours.partition.in_flight()
        return any(
            is_pending and state == AVAILABLE and last >= first - 40 and begin <= end + 40
            for begin, last, state, _count, _member, _deadline, is_pending in runs
        )

    def _acknowledge(self) -> None:
        rng = self.rng
        member = rng.choice(MEMBERS)
        runs = [
            (first, last)
            for first, last, state, _count, holder, _deadline, is_pending in self.ours.partition.in_flight()
            if (state == ACQUIRED and holder == member and not is_pending) or rng.random() < 0.02
        ]
        parts = []
        for first, last in runs[rng.randrange(3) :][: rng.randint(1, 4)]:
            begin, end = first, last
            if rng.random() < 0.4:
                begin, end = sorted((rng.randint(first, last), rng.randint(first, last)))
            if rng.random() < 0.3:
                types = "".join(rng.choice("01112234") for _ in range(end - begin + 1))
            else:
                types = rng.choice("0111122234")
            parts.append(f"{begin}:{end}:{types}")
        if parts:
            self.say(f"ack {member} {','.join(parts)}")

    def _stray(self) -> None:
        """Acknowledge records that the member does not have."""
        runs = self.ours.partition.in_flight()
        if not runs:
            return
        begin = self.rng.choice([runs[0][0] - 3, runs[-1][1] + 1, self.rng.choice(runs)[0]])
        end = begin + self.rng.choice([0, 2, 10])
        if begin >= 0:
            self.say(f"ack {self.rng.choice(MEMBERS)} {begin}:{end}:{self.rng.choice('0123')}")

    def _release(self) -> None:
        self.say(f"release {self.rng.choice(MEMBERS)}")

    def _tick(self) -> None:
        self.say(f"tick {self.ours.now_ms + self.rng.choice([1, 50, 100, 300])}")

    def _end_write(self) -> None:
        number = self.rng.choice(list(self.ours.writes))
        is_below = self.ours.writes[number].batches[0][0] < self.ours.partition.start_offset
        self.say(f"{'written' if is_below else self.rng.choice(['written', 'written', 'failed'])} {number}")

    def _log_start(self) -> None:
        runs = self.ours.partition.in_flight()
        if not runs or any(run[-1] and run[2] == AVAILABLE for run in runs):
            return
        first, last, *_ = self.rng.choice(runs[:4])
        offset = self.rng.randint(first, last)
        if offset > self.ours.partition.start_offset:
            self.log_start = offset
            self.say(f"logstart {self.log_start}")

    def _compact(self) -> None:
        """Remove some batches of the log; the last one stays."""
        self.log = [batch for batch in self.log[:-1] if self.rng.random() < 0.8] + self.log[-1:]
