"""The topic of the registry and its readers in the simulation of checked records: transactions that commit, abort or
stay open, deletions, a topic that is recreated, a log whose start moves, leaders that are gone, and slow reads.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
from collections.abc import Callable
from concurrent.futures import Executor, Future
from random import Random
from typing import Any, NamedTuple
from uuid import UUID

from broker_cy.record_schemas.sources import NotReadable, OffsetGone, TopicPart
from broker_cy.wire import messages
from broker_cy.wire.batch import stamp
from broker_cy.wire.marker import encode_marker
from broker_cy.wire.records import Record, decode_batches, encode_batch

# Bytes of one read: two or three batches.
READ_BYTES = 700
SLOW_S = 3.0
"""The longest read; a round takes at most two seconds."""


class Inline(Executor):
    """Runs work at once: the simulation has one thread."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        done: Future[Any] = Future()
        try:
            done.set_result(fn(*args, **kwargs))
        except BaseException as error:
            done.set_exception(error)
        return done


class Version(NamedTuple):
    """A version of a subject, as the registry has confirmed it."""

    subject: str
    number: int
    id: int
    text: str

    @property
    def guid(self) -> bytes:
        return hashlib.md5(self.text.encode(), usedforsecurity=False).digest()

    def record(self, *, is_deleted: bool = False) -> Record:
        value = {
            "subject": self.subject,
            "version": self.number,
            "id": self.id,
            "md5": base64.b64encode(self.guid).decode(),
            "schema": self.text,
            "deleted": is_deleted,
        }
        return Record(key=self.key, value=json.dumps(value).encode())

    @property
    def key(self) -> bytes:
        key = {"keytype": "SCHEMA", "subject": self.subject, "version": self.number, "magic": 1}
        return json.dumps(key).encode()

    def tombstone(self) -> Record:
        return Record(key=self.key, value=None)


class _Batch(NamedTuple):
    base: int
    end: int
    data: bytes


class Topic:
    """The log of one topic id. A transaction is open from its batch until `end_transaction`."""

    def __init__(self, topic_id: UUID) -> None:
        self.topic_id = topic_id
        self._batches: list[_Batch] = []
        self._aborted: list[tuple[int, int, int]] = []  # (producer id, first offset, offset of the marker)
        self._open: tuple[int, int] | None = None  # (producer id, first offset)
        self._producer_id = 100
        self.log_start = 0

    @property
    def end(self) -> int:
        return self._batches[-1].end if self._batches else self.log_start

    @property
    def stable_end(self) -> int:
        return self.end if self._open is None else self._open[1]

    @property
    def is_open(self) -> bool:
        return self._open is not None

    def begin(self, records: list[Record]) -> None:
        self._producer_id += 1
        self._open = (self._producer_id, self.end)
        self._append(
            encode_batch(records, producer_id=self._producer_id, producer_epoch=0, base_sequence=0, transactional=True),
            len(records),
        )

    def end_transaction(self, *, commits: bool) -> None:
        assert self._open is not None
        producer_id, first = self._open
        if not commits:
            self._aborted.append((producer_id, first, self.end))
        self._append(encode_marker(producer_id, 0, 0, commits, 0), 1)
        self._open = None

    def _append(self, batch: bytes, count: int) -> None:
        data = bytearray(batch)
        base = self.end
        stamp(data, base, 0)
        self._batches.append(_Batch(base, base + count, bytes(data)))

    def read(self, offset: int) -> TopicPart:
        """Raises OffsetGone."""
        if not self.log_start <= offset <= self.end:
            raise OffsetGone(self.log_start)
        stable = self.stable_end
        found = b""
        last = offset
        for batch in self._batches:
            if batch.end <= offset or batch.base >= stable:
                continue
            if found and len(found) + len(batch.data) > READ_BYTES:
                break
            found += batch.data
            last = batch.end
        aborted = [
            messages.FetchResponse.AbortedTransaction(producer_id=producer, first_offset=first)
            for producer, first, marker in self._aborted
            if first < last and marker >= offset
        ]
        return TopicPart(found, aborted, stable)

    def is_last(self, part: TopicPart) -> bool:
        """Whether a part had all records that were stable when it was read."""
        return not part.data or list(decode_batches(part.data))[-1].last_offset + 1 >= part.stable_end


class Place:
    """Where the topic is now: recreated, or without a leader at times."""

    def __init__(self, draw: Random) -> None:
        self.draw = draw
        self.topic: Topic | None = None
        self._topics = 0
        self.is_led = True

    def create(self) -> Topic:
        self._topics += 1
        self.topic = Topic(UUID(int=self._topics))
        return self.topic


class Reader:
    """The Source of one broker: reads take a while, some longer than a round."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self.slowness = 0.0
        # When the newest read was taken that had all records of its topic from its offset on.
        self.whole_s = 0.0
        self.failed = self.slow = 0

    def topic_id(self) -> UUID | None:
        return None if self._place.topic is None else self._place.topic.topic_id

    async def read(self, topic_id: UUID, offset: int) -> TopicPart:
        draw = self._place.draw
        await asyncio.sleep(draw.random() * 0.004)
        topic = self._place.topic
        if not self._place.is_led or topic is None or topic.topic_id != topic_id:
            self.failed += 1
            raise NotReadable("no leader")
        found = topic.read(offset)
        taken_s = asyncio.get_running_loop().time()
        if draw.random() < self.slowness:
            self.slow += 1
            await asyncio.sleep(draw.random() * SLOW_S)
        else:
            await asyncio.sleep(draw.random() * 0.004)
        if topic.is_last(found):
            self.whole_s = taken_s
        return found
