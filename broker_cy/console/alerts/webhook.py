"""Delivers alerts to a webhook: one POST of a JSON object each, in order, with bounded retries and a bounded queue."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections import deque
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit

import h11

from broker_cy.client.errors import network_reason
from broker_cy.console.alerts.rules import WebhookSettings
from broker_cy.console.figures import Fact
from broker_cy.reporting.tone import Tone

# Alerts that wait for delivery; beyond it, the oldest are dropped and counted.
QUEUE_MAX: Final = 1_000
# The backoff doubles from the first value up to the second one: 10 attempts take about three minutes.
BACKOFF_S: Final = 0.5
BACKOFF_MAX_S: Final = 60.0
# Only the status of a response is used.
ANSWER_BYTES_MAX: Final = 64 << 10
_READ_BYTES: Final = 4_096
# Besides 5xx, the statuses after which the same request may be accepted later.
_RETRIED: Final = frozenset({408, 425, 429})


def host_of(url: str) -> str:
    """Return host and port of a URL; the rest of the URL may be a secret."""
    return urlsplit(url).netloc.rpartition("@")[2]


class _Rejected(Exception):
    """The endpoint rejected the request in a way that makes a retry useless."""


class Webhook:
    """Delivers queued alerts in order, and counts those that were delivered, failed and dropped."""

    def __init__(
        self,
        settings: WebhookSettings,
        *,
        queue_max: int = QUEUE_MAX,
        backoff_s: float = BACKOFF_S,
        backoff_max_s: float = BACKOFF_MAX_S,
    ) -> None:
        self._settings = settings
        self._queue_max = queue_max
        self._backoff_s = backoff_s
        self._backoff_max_s = backoff_max_s
        self._queue: deque[Mapping[str, Any]] = deque()
        self._task: asyncio.Task[None] | None = None
        self._is_sending = False
        self.delivered = 0
        self.failed = 0
        self.dropped = 0
        self.attempts = 0
        self.error = ""

    @property
    def target(self) -> str:
        """Return the host of the URL."""
        return host_of(self._settings.url)

    @property
    def queued(self) -> int:
        """Return the number of alerts that wait, including the one under way."""
        return len(self._queue) + self._is_sending

    def put(self, payload: Mapping[str, Any]) -> None:
        """Queue an alert, without waiting."""
        if len(self._queue) >= self._queue_max:
            self._queue.popleft()
            self.dropped += 1
        self._queue.append(payload)
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run())

    async def close(self, flush_s: float = 0.0) -> None:
        """Deliver queued alerts for at most `flush_s`, then close; the rest counts as dropped."""
        if self._task is not None:
            await asyncio.wait([self._task], timeout=flush_s)
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None
        self.dropped += self.queued
        self._queue.clear()
        self._is_sending = False

    async def _run(self) -> None:
        """Deliver until the queue is empty."""
        while self._queue:
            self._is_sending = True
            if await self._deliver(self._queue.popleft()):
                self.delivered += 1
            else:
                self.failed += 1
            self._is_sending = False

    async def _deliver(self, payload: Mapping[str, Any]) -> bool:
        body = json.dumps(payload, ensure_ascii=False).encode()
        wait_s = self._backoff_s
        for attempt in range(self._settings.attempts):
            if attempt:
                await asyncio.sleep(wait_s)
                wait_s = min(2 * wait_s, self._backoff_max_s)
            self.attempts += 1
            try:
                async with asyncio.timeout(self._settings.timeout_s):
                    await self._post(body)
            except (_Rejected, ValueError) as error:
                self.error = str(error)
                return False
            except TimeoutError:
                self.error = f"no response within {self._settings.timeout_s:g} s"
            except OSError as error:
                self.error = network_reason(error)
            except h11.ProtocolError as error:
                self.error = str(error) or type(error).__name__
            else:
                self.error = ""
                return True
        return False

    async def _post(self, body: bytes) -> None:
        """Send one request on a separate connection. Raises _Rejected, OSError or h11.ProtocolError."""
        url = urlsplit(self._settings.url)
        is_tls = url.scheme == "https"
        reader, writer = await asyncio.open_connection(
            url.hostname,
            url.port or (443 if is_tls else 80),
            ssl=ssl.create_default_context() if is_tls else None,
        )
        try:
            http = h11.Connection(h11.CLIENT)
            request = h11.Request(
                method="POST",
                target=(url.path or "/") + (f"?{url.query}" if url.query else ""),
                headers=[
                    ("Host", self.target),
                    ("User-Agent", "broker-cy"),
                    ("Content-Type", "application/json"),
                    ("Content-Length", str(len(body))),
                    ("Connection", "close"),
                ],
            )
            for event in (request, h11.Data(body), h11.EndOfMessage()):
                writer.write(http.send(event) or b"")
            await writer.drain()
            status = await self._status(http, reader)
        finally:
            writer.close()
        if 200 <= status < 300:
            return
        if status >= 500 or status in _RETRIED:
            raise OSError(f"HTTP status {status}")
        raise _Rejected(f"HTTP status {status}")

    @staticmethod
    async def _status(http: h11.Connection, reader: asyncio.StreamReader) -> int:
        received = 0
        while received < ANSWER_BYTES_MAX:
            event = http.next_event()
            if event is h11.NEED_DATA:
                data = await reader.read(_READ_BYTES)
                received += len(data)
                http.receive_data(data)
            elif isinstance(event, h11.Response):
                return event.status_code
            elif isinstance(event, h11.ConnectionClosed):
                raise OSError("the connection was closed without a response")
        raise OSError(f"no status within {ANSWER_BYTES_MAX} bytes")


def facts_of(webhook: Webhook) -> list[Fact]:
    """Return the numbers of deliveries, failures and drops, and the last error."""
    facts = [
        Fact("to", webhook.target),
        Fact("delivered", str(webhook.delivered)),
        Fact("queued", str(webhook.queued)),
        Fact("failed", str(webhook.failed), Tone.BAD if webhook.failed else Tone.PLAIN),
        Fact("dropped", str(webhook.dropped), Tone.BAD if webhook.dropped else Tone.PLAIN),
    ]
    if webhook.error:
        facts.append(Fact("last error", webhook.error, Tone.WARN))
    return facts
