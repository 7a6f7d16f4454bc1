"""The HTTP connections of the registry: those of uvicorn, which answer most GETs without a task (see `quick`)."""

from __future__ import annotations

from typing import Any, Protocol

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from broker_registry.api.quick import Requests, Short, head_of


class Quick(Protocol):
    """Answers a request at once: status, type of the content, and body. None if the answer has to wait."""

    def __call__(self, request: Short, /) -> tuple[int, bytes, bytes] | None: ...


class QuickProtocol(HttpToolsProtocol):
    """One connection. uvicorn calls it with its own arguments; `quick` and `requests` are those of the process."""

    def __init__(self, *own: Any, quick: Quick, requests: Requests, **named: Any) -> None:
        super().__init__(*own, **named)
        self._quick, self._requests = quick, requests
        # Whether uvicorn's parser has a part of a request.
        self._is_amid = False
        # When the last request was answered here, on the clock of the loop.
        self._answered_s = 0.0
        self._common: tuple[list[tuple[bytes, bytes]], bytes] = ([], b"")

    def data_received(self, data: bytes) -> None:
        if not self._is_amid and (self.cycle is None or self.cycle.response_complete):
            request = self._requests.read(data)
            if request is not None and not self.flow.write_paused:
                answer = self._quick(request)
                if answer is not None:
                    self._write(*answer)
                    return
        super().data_received(data)

    def on_message_begin(self) -> None:
        self._is_amid = True
        super().on_message_begin()

    def on_message_complete(self) -> None:
        self._is_amid = False
        super().on_message_complete()

    def _write(self, status: int, content_type: bytes, body: bytes) -> None:
        self.transport.write(head_of(status, content_type, len(body), self._common_headers()) + body)
        self._answered_s = self.loop.time()
        if self.timeout_keep_alive_task is None:
            self._wait_for_more(self.timeout_keep_alive)

    def _common_headers(self) -> bytes:
        """Return the lines of uvicorn's own headers. It has a new list of them for each second."""
        found = self.server_state.default_headers
        if found is not self._common[0]:
            self._common = found, b"".join(b"%s: %s\r\n" % pair for pair in found)
        return self._common[1]

    def _wait_for_more(self, wait_s: float) -> None:
        self.timeout_keep_alive_task = self.loop.call_later(wait_s, self.timeout_keep_alive_handler)

    def timeout_keep_alive_handler(self) -> None:
        """Close the connection, unless a request was answered here since the timer was set."""
        left_s = self._answered_s + self.timeout_keep_alive - self.loop.time()
        if left_s > 0:
            self._wait_for_more(left_s)
        else:
            super().timeout_keep_alive_handler()
