"""Batches of committed records of one partition, as they are in the log, at a bounded rate."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from broker_cy.admin import AdminClient
from broker_cy.admin.caller import Leaders
from broker_cy.admin.fetched import fetch
from broker_cy.admin.metadata import TopicPartition
from broker_cy.admin.offsets import Isolation
from broker_cy.client.aborted import AbortedTransactions
from broker_cy.client.errors import ClientError, Failure, problem_of, refused
from broker_cy.core.errors import ErrorCode, WireError
from broker_cy.wire import messages
from broker_cy.wire.records import Batch, decode_batches

ANSWER_BYTES_MAX: Final = 4 << 20
"""Bytes of one answer. Each side of a partition keeps at most two."""
_WAIT_MS: Final = 500


class Rate:
    """Bounds the bytes that both clusters are asked for, in bytes per second; 0 is no bound."""

    def __init__(self, bytes_per_s: int, clock_s: Callable[[], float]) -> None:
        self._bytes_per_s = bytes_per_s
        self._clock_s = clock_s
        self._free_s = 0.0
        self.bytes = 0

    async def took(self, count: int) -> None:
        """Count bytes, and wait until the next ones may be asked for."""
        self.bytes += count
        if not self._bytes_per_s:
            return
        now_s = self._clock_s()
        self._free_s = max(self._free_s, now_s) + count / self._bytes_per_s
        if self._free_s > now_s:
            await asyncio.sleep(self._free_s - now_s)


class BatchReader:
    """Reads from `start` up to, but not including, `end`, which must not be after the last stable offset."""

    def __init__(self, client: AdminClient, key: TopicPartition, start: int, end: int, rate: Rate) -> None:
        self._client, self._key, self._rate = client, key, rate
        self._next, self._end = start, end
        self._attempt = 0
        self._failing_since_s: float | None = None
        # Records before this offset were removed while they were to be read.
        self.removed_until: int | None = None

    @property
    def ended(self) -> bool:
        return self._next >= self._end

    async def read(self) -> list[Batch]:
        """Return the batches of one answer, without markers and aborted records. Raises ClientError."""
        while not self.ended:
            try:
                part = await self._fetch()
            except ClientError as error:
                await self._failed(error)
                continue
            if part is None:
                continue
            self._attempt, self._failing_since_s = 0, None
            found = self._batches(part)
            await self._rate.took(len(part.records or b""))
            if found or self.ended:
                return found
        return []

    async def _fetch(self) -> messages.FetchResponse.PartitionData | None:
        caller, key = self._client.caller, self._key
        places, failed = await Leaders(caller.metadata).locate([key], caller.deadline())
        if key in failed:
            raise failed[key]
        peer = next(iter(places))
        answer, _ = await fetch(
            caller,
            peer,
            {key: self._next},
            caller.deadline(),
            bytes_max=ANSWER_BYTES_MAX,
            partition_bytes_max=ANSWER_BYTES_MAX,
            bytes_min=1,
            wait_ms=_WAIT_MS,
            isolation=Isolation.READ_COMMITTED,
        )
        for topic in answer.responses:
            for part in topic.partitions:
                if part.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
                    await self._skip_removed()
                    return None
                if (problem := problem_of(part.error_code)) is not None:
                    raise refused(problem, peer.name, "Fetch", f"partition {key}")
                return part
        text = "the answer lacks the partition"
        raise ClientError(Failure.REFUSED, text, broker=peer.name, api="Fetch", what=f"partition {key}")

    async def _failed(self, error: ClientError) -> None:
        """Wait before the next attempt. Raises the error if it lasts longer than a call may take."""
        caller = self._client.caller
        now_s = asyncio.get_running_loop().time()
        if self._failing_since_s is None:
            self._failing_since_s = now_s
        self._attempt += 1
        is_late = now_s - self._failing_since_s >= caller.timeout_s
        if is_late or not caller.may_retry(error, self._attempt):
            raise error.about(f"partition {self._key}")
        caller.metadata.forget([self._key.topic])
        await caller.deadline().back_off(self._attempt)

    async def _skip_removed(self) -> None:
        key = self._key
        start = (await self._client.offsets.earliest([key])).whole()[key]
        if start <= self._next:
            raise ClientError(
                Failure.REFUSED,
                f"offset {self._next} is beyond the end of the log: was the topic deleted meanwhile?",
                what=f"partition {key}",
            )
        self._next = self.removed_until = start

    def _batches(self, part: messages.FetchResponse.PartitionData) -> list[Batch]:
        aborted = AbortedTransactions(part.aborted_transactions or [])
        found = []
        try:
            for batch in decode_batches(part.records or b""):
                if batch.base_offset >= self._end:
                    self._next = self._end
                    break
                is_hidden = aborted.hides(batch)
                if not is_hidden and not batch.is_control and batch.last_offset >= self._next:
                    found.append(batch)
                self._next = max(self._next, batch.last_offset + 1)
        except WireError as error:
            text = f"the batch at or after offset {self._next} cannot be read: {error}"
            raise ClientError(Failure.REFUSED, text, what=f"partition {self._key}") from None
        return found
