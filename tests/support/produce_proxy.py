"""A proxy that injects faults into Produce requests, and notes exactly which records they concern."""

from __future__ import annotations

import asyncio
import contextlib
import struct
import threading
from collections import Counter, deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from broker_cy.wire import codec, frame, messages
from broker_cy.wire.api_keys import ApiKey
from broker_cy.wire.records import decode_batches
from loadgen.verify.ledger import of_batches
from loadgen.verify.prefix import stamp_of
from tests.support.proxy import Proxy, Upstream, behind

Fault = Literal["loss", "duplicate", "reorder", "unknown"]
# Partition, producer as in a ledger, sequence.
Key = tuple[int, int, int]


@dataclass
class _Held:
    """A request that is delayed until all its producers have had another one in its partitions."""

    request: bytes
    keys: list[Key]
    waits_for: set[tuple[int, int]]
    passed: list[Key]


class ProduceProxy(Proxy):
    """The n-th Produce request (from 0), or the first one after it while none is delayed, suffers `plan[n]`:

    loss: it is answered as successful, and not forwarded; duplicate: it is forwarded twice; reorder: it is answered as
    successful, and forwarded after the next requests of its producers to its partitions; unknown: it is forwarded, and
    its connection is cut instead of an answer.

    `by_batches`: producer ids and sequences of batches identify records, not their stamps. `found` has the records
    concerned: "lost", "duplicated", "reordered", "unknown".
    """

    def __init__(self, plan: Mapping[int, Fault], *, by_batches: bool = False) -> None:
        super().__init__()
        self._plan, self._by_batches = deque(sorted(plan.items())), by_batches
        self._count = 0
        self._held: _Held | None = None
        self._ends: dict[int, int] = {}
        self.found: dict[str, list[Key]] = {"lost": [], "duplicated": [], "reordered": [], "unknown": []}

    @property
    def is_done(self) -> bool:
        """Whether the whole plan has happened."""
        return not self._plan and self._held is None

    async def answer(self, api_key: int, version: int, request: bytes, upstream: Upstream) -> bytes | None:
        """See Proxy."""
        if api_key != ApiKey.PRODUCE:
            return await upstream.forward(request)
        number, self._count = self._count, self._count + 1
        produce = codec.decode(messages.ProduceRequest, version, request[self._body_at(request) :])
        keys = self._keys(produce)
        fault = None
        if self._plan and self._plan[0][0] <= number and self._held is None:
            fault = self._plan.popleft()[1]
        match fault:
            case "loss":
                self.found["lost"] += keys
                return self._invented(version, request, produce)
            case "reorder":
                self._held = _Held(request, keys, {key[:2] for key in keys}, [])
                return self._invented(version, request, produce)
        answer = await self._forward(version, request, keys, upstream)
        if fault == "duplicate":
            self.found["duplicated"] += keys
            await self._forward(version, request, keys, upstream)
        await self._release(version, keys, upstream)
        if fault == "unknown":
            self.found["unknown"] += keys
            raise ConnectionResetError
        return answer

    async def _forward(self, version: int, request: bytes, keys: list[Key], upstream: Upstream) -> bytes:
        records = Counter(partition for partition, _, _ in keys)
        answer = await upstream.forward(request)
        body = answer[5 if frame.response_header_version(ApiKey.PRODUCE, version) == 1 else 4 :]
        for topic in codec.decode(messages.ProduceResponse, version, body).responses:
            for part in topic.partition_responses:
                if not part.error_code:
                    self._ends[part.index] = part.base_offset + records[part.index]
        return answer

    async def _release(self, version: int, keys: list[Key], upstream: Upstream) -> None:
        """Forward the delayed request when all its producers have had another one."""
        if (held := self._held) is None:
            return
        held.passed += keys
        held.waits_for -= {key[:2] for key in keys}
        if held.waits_for:
            return
        self._held = None
        highest: dict[tuple[int, int], int] = {}
        for partition, producer, sequence in held.passed:
            highest[partition, producer] = max(sequence, highest.get((partition, producer), -1))
        self.found["reordered"] += [key for key in held.keys if highest.get((key[0], key[1]), -1) > key[2]]
        await self._forward(version, held.request, held.keys, upstream)

    def _body_at(self, request: bytes) -> int:
        return frame.parse_request_header(request)[4]

    def _keys(self, produce: messages.ProduceRequest) -> list[Key]:
        """Return the records of a request."""
        keys: list[Key] = []
        for part in (part for topic in produce.topic_data for part in topic.partition_data):
            for batch in decode_batches(part.records or b""):
                if self._by_batches:
                    producer = of_batches(batch.producer_id)
                    keys += [(part.index, producer, batch.base_sequence + at) for at in range(batch.count)]
                    continue
                for record in batch:
                    stamp = stamp_of(record.value, record.headers)
                    assert stamp is not None
                    keys.append((part.index, stamp.producer, stamp.sequence))
        return keys

    def _invented(self, version: int, request: bytes, produce: messages.ProduceRequest) -> bytes:
        """Return a successful answer."""
        answer = messages.ProduceResponse(
            responses=[
                messages.ProduceResponse.TopicProduceResponse(
                    name=topic.name,
                    topic_id=topic.topic_id,
                    partition_responses=[
                        messages.ProduceResponse.PartitionProduceResponse(
                            index=part.index, base_offset=self._ends.get(part.index, 0)
                        )
                        for part in topic.partition_data
                    ],
                )
                for topic in produce.topic_data
            ]
        )
        correlation_id = struct.unpack_from(">i", request, 4)[0]
        flexible = frame.response_header_version(ApiKey.PRODUCE, version) == 1
        return struct.pack(">i", correlation_id) + (b"\0" if flexible else b"") + codec.encode(answer, version)

    def count(self, name: str) -> int:
        """Return how many records suffered a fault."""
        assert max(Counter(self.found[name]).values(), default=1) == 1
        return len(self.found[name])


@contextlib.contextmanager
def broker_behind(proxy: ProduceProxy, directory: Path) -> Iterator[tuple[str, int]]:
    """Run our broker behind the proxy, whose event loop has a separate thread; yields the proxy's address."""
    broker = behind(proxy, directory)
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="produce-proxy")
    thread.start()
    try:
        asyncio.run_coroutine_threadsafe(proxy.__aenter__(), loop).result(30)
        try:
            yield "127.0.0.1", proxy.port
        finally:
            asyncio.run_coroutine_threadsafe(proxy.__aexit__(None, None, None), loop).result(30)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
        broker.close()
