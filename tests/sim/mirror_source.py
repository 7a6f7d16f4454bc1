"""The source cluster of the mirror simulation: one partition, its leaders and its metadata."""

from __future__ import annotations

import random
from typing import NamedTuple
from uuid import UUID

from broker_cy.core.errors import ErrorCode
from broker_cy.replica.following import Answer, Ask
from broker_cy.replica.mirror import Source
from broker_cy.storage.epochs import LeaderEpochs
from tests.sim.replica_node import Batch

BATCHES_MAX = 20  # of an answer


class Reply(NamedTuple):
    """An answer to a fetch, with its records; `start` and `end` answer ListOffsets."""

    error: ErrorCode
    answer: Answer
    batches: list[Batch]
    start: int = -1
    end: int = -1


class Leader:
    """The log of one leader. A deposed one goes on answering until it learns of its end."""

    def __init__(self, number: int, epoch: int, batches: list[Batch], high: int, start: int) -> None:
        self.number = number
        self.epoch = epoch
        self.batches = batches
        self.high = high
        self.start = start
        self.epochs = LeaderEpochs("/nowhere")
        for batch in batches:
            if batch.epoch > self.epochs.latest_epoch:
                self.epochs.assign(batch.epoch, batch.base_offset)
        self.epochs.assign(epoch, self.end)

    @property
    def end(self) -> int:
        return self.batches[-1].end_offset if self.batches else self.start

    def fetch(self, ask: Ask) -> Reply:
        """Answer a consumer: it reads below the high watermark (Kafka's Partition.readRecords)."""
        refused = Reply(ErrorCode.FENCED_LEADER_EPOCH, Answer(-1, -1), [])
        if ask.leader_epoch != self.epoch:
            is_old = ask.leader_epoch < self.epoch
            return refused if is_old else refused._replace(error=ErrorCode.UNKNOWN_LEADER_EPOCH)
        out = Reply(ErrorCode.OFFSET_OUT_OF_RANGE, Answer(-1, -1), [], self.start, self.high)
        if ask.last_fetched_epoch >= 0:
            epoch, end = self.epochs.end_offset_for(ask.last_fetched_epoch, self.end)
            if epoch < 0 or end < 0:
                return out
            if epoch < ask.last_fetched_epoch or end < ask.offset:
                return Reply(ErrorCode.NONE, Answer(self.high, self.start, (epoch, end)), [])
        if not self.start <= ask.offset <= self.end:
            return out
        found = [each for each in self.batches if ask.offset < each.end_offset <= self.high][:BATCHES_MAX]
        return Reply(ErrorCode.NONE, Answer(self.high, self.start, None, [each.span for each in found]), found)


class SourceCluster:
    """`leader` is the present leader, and `deposed` the one before. `is_unclean`: some elections lose records that were
    committed.
    """

    def __init__(self, draw: random.Random, *, is_unclean: bool) -> None:
        self.draw = draw
        self.is_unclean = is_unclean
        self.topic_id = UUID(int=draw.getrandbits(128))
        self.leader = Leader(0, draw.choice([0, 0, 3, 40]), [], 0, 0)
        self.deposed: Leader | None = None
        self.records = 1_000_000
        self.elections = self.losses = 0
        self.history: dict[tuple[int, int], Batch] = {}  # (base offset, leader epoch) -> each batch that ever was
        self.metadata = [self._image()]  # of all times

    def _image(self) -> Source:
        return Source(self.topic_id, self.leader.number, self.leader.epoch)

    def look_up(self) -> Source:
        """Metadata of a broker, which may be behind."""
        behind = self.draw.choice([0, 0, 0, 1, 2]) if self.deposed is None else self.draw.choice([0, 1, 1])
        return self.metadata[max(0, len(self.metadata) - 1 - behind)]

    def leader_of(self, ask: Ask) -> Leader:
        """The leader that a fetch in this epoch is sent to."""
        deposed = self.deposed
        return deposed if deposed is not None and deposed.epoch == ask.leader_epoch else self.leader

    def produce(self) -> None:
        leader = self.leader
        self.records += 1
        batch = Batch(leader.end, leader.end + self.draw.randint(1, 3), leader.epoch, self.records)
        assert self.history.setdefault((batch.base_offset, batch.epoch), batch) == batch
        leader.batches.append(batch)
        self.commit()

    def commit(self, *, everything: bool = False) -> None:
        """Followers have fetched some of the records."""
        ends = [each.end_offset for each in self.leader.batches if each.end_offset >= self.leader.high]
        if ends:
            self.leader.high = ends[-1] if everything else self.draw.choice(ends)

    def elect(self) -> None:
        """Another replica leads: it lacks some records that were not committed, and in an unclean election others."""
        old = self.leader
        self.deposed = old if self.draw.random() < 0.7 else None
        keep = self.draw.randint(old.high, old.end)
        if self.is_unclean and self.draw.random() < 0.5:
            keep = self.draw.randint(old.start + (old.high - old.start) // 2, old.high)
            self.losses += 1
        batches = [each for each in old.batches if each.end_offset <= max(keep, old.start)]
        if not batches:
            batches = old.batches[:1]  # so that the log ends where it ended
        high = min(old.high, batches[-1].end_offset if batches else old.start)
        self.elections += 1
        # The new leader may not know yet how far its predecessor has committed.
        high = self.draw.choice([high, max(old.start, high - self.draw.randint(0, 5))])
        ends = [old.start, *(each.end_offset for each in batches)]
        high = max(each for each in ends if each <= high)
        self.leader = Leader(old.number + 1, old.epoch + self.draw.choice([1, 1, 2, 7]), batches, high, old.start)
        self.metadata.append(self._image())

    def delete(self) -> None:
        leader = self.leader
        start = self.draw.choice(
            [each.end_offset for each in leader.batches if each.end_offset <= leader.high] or [leader.start]
        )
        kept = [each for each in leader.batches if each.end_offset > start]
        leader.start = start
        leader.batches[:] = kept or leader.batches[-1:]
        leader.epochs.truncate_from_start(start)
