"""ksqlDB's processing log: errors of records, as JSON in a topic. Without the topic they are in the log of the server.

    {"level": "ERROR", "logger": "processing.CTAS_COUNTS_3", "time": ms, "message": {"type": 0,
     "deserializationError": {"target": "value", "errorMessage": ..., "recordB64": ..., "cause": [...], "topic": ...},
     "recordProcessingError": null, ...}}

Threads of queries note errors, and one task writes them. At most PENDING_MAX wait for it; the oldest ones are dropped,
and their number is in the log of the server.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from types import TracebackType
from typing import Any, Final

from broker_cy.admin import AdminClient
from broker_cy.admin.produce import Producer
from broker_cy.admin.topics import NewTopic
from broker_cy.client.errors import ClientError
from broker_cy.wire.records import Record
from broker_sql.dialect import to_text
from broker_sql.server.config import ServerConfig
from broker_streams.kernel.errors import ErrorContext, Response, Result, log_and_continue

AUTO_CREATE: Final = "ksql.logging.processing.topic.auto.create"
NAME: Final = "ksql.logging.processing.topic.name"
PARTITIONS: Final = "ksql.logging.processing.topic.partitions"
REPLICAS: Final = "ksql.logging.processing.topic.replication.factor"
INCLUDES_ROWS: Final = "ksql.logging.processing.rows.include"
PENDING_MAX: Final = 10_000
BATCH_MAX: Final = 500
RETRY_S: Final = 5.0
# ksqlDB's numbers and names of messages.
DESERIALIZATION: Final = (0, "deserializationError")
PROCESSING: Final = (1, "recordProcessingError")
_KINDS: Final = (
    DESERIALIZATION[1],
    PROCESSING[1],
    "productionError",
    "serializationError",
    "kafkaStreamsThreadError",
)
_LOG: Final = logging.getLogger(__name__)


class ProcessingLog:
    """`async with`: in the block errors are written. All other calls may come from any thread."""

    def __init__(self, config: ServerConfig, client: AdminClient, producer: Producer) -> None:
        values = config.values
        self.topic = (values[NAME] or f"{config.service_id}ksql_processing_log") if values[AUTO_CREATE] else None
        self._includes_rows: bool = values[INCLUDES_ROWS]
        self._counts = values[PARTITIONS], values[REPLICAS]
        self._client, self._producer = client, producer
        self._pending: deque[bytes] = deque()
        self._lock = threading.Lock()
        self._dropped = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> ProcessingLog:
        if self.topic is None:
            return self
        partitions, replicas = self._counts
        names = {each.name for each in await self._client.topics.list_all()}
        if self.topic not in names:
            (await self._client.topics.create([NewTopic(self.topic, partitions, replicas)])).whole()
        self._loop = asyncio.get_running_loop()
        self._task = asyncio.create_task(self._write_all())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._task is not None:
            self._loop = None
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
            with contextlib.suppress(ClientError):
                await self._write_some()

    # ------------------------------------------------------------------------------------------------ errors

    def handler(self, query_id: str) -> Callable[[ErrorContext, Any, Exception], Response]:
        """The handler of records of a query that cannot be read: they are skipped."""

        def handle(context: ErrorContext, record: Any, error: Exception) -> Response:
            if self.topic is None:
                return log_and_continue(context, record, error)
            is_key = str(error).startswith(f"{context.topic}: key ")
            data = context.raw_key if is_key else context.raw_value
            fields = {
                "target": "key" if is_key else "value",
                "errorMessage": f"{context.place}: {error}",
                "recordB64": base64.b64encode(data).decode() if data is not None and self._includes_rows else None,
                "cause": _causes(error),
                "topic": context.topic,
            }
            self.note(query_id, DESERIALIZATION, fields)
            return Response(Result.RESUME, context.dead_letters(error))

        return handle

    def expression(self, query_id: str, text: str, node: Any) -> None:
        """Note an error of an expression, whose value is NULL for the record."""
        if self.topic is None:
            _LOG.info("%s: %s", query_id, text)
            return
        with contextlib.suppress(Exception):
            text = f"{text}: {to_text(node)}"
        self.note(query_id, PROCESSING, {"errorMessage": text, "record": None, "cause": []})

    def note(self, query_id: str, kind: tuple[int, str], fields: dict[str, Any]) -> None:
        number, name = kind
        message = {"type": number, **{each: fields if each == name else None for each in _KINDS}}
        now_ms = time.time_ns() // 1_000_000
        logger = f"processing.{query_id}" if query_id else "processing"
        text = json.dumps({"level": "ERROR", "logger": logger, "time": now_ms, "message": message}).encode()
        with self._lock:
            self._pending.append(text)
            if len(self._pending) > PENDING_MAX:
                self._pending.popleft()
                self._dropped += 1
        loop = self._loop
        if loop is not None:
            # The loop may have been closed meanwhile.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(self._wake.set)

    # ------------------------------------------------------------------------------------------------ writing

    async def _write_all(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            try:
                while await self._write_some():
                    pass
            except ClientError as error:
                _LOG.warning("the processing log %s cannot be written: %s", self.topic, error)
                await asyncio.sleep(RETRY_S)
                self._wake.set()

    async def _write_some(self) -> bool:
        """Write the oldest errors; return whether there were any. Raises ClientError: they are kept."""
        assert self.topic is not None
        with self._lock:
            texts = [self._pending[index] for index in range(min(BATCH_MAX, len(self._pending)))]
            dropped, self._dropped = self._dropped, 0
        if dropped:
            _LOG.warning("%d errors are missing in the processing log: it was written too slowly", dropped)
        if not texts:
            return False
        now_ms = time.time_ns() // 1_000_000
        await self._producer.send(self.topic, [Record(timestamp=now_ms, key=None, value=text) for text in texts])
        with self._lock:
            for text in texts:
                if self._pending and self._pending[0] is text:
                    self._pending.popleft()
        return True


def _causes(error: BaseException) -> list[str]:
    found: list[str] = []
    cause = error.__cause__
    while cause is not None and len(found) < 10:
        found.append(str(cause))
        cause = cause.__cause__
    return found
