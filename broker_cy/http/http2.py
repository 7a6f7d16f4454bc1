"""HTTP/2 (RFC 9113) beside HTTP/1.1 on the same listener: by ALPN with TLS, and with prior knowledge without.

A connection whose first bytes are HTTP/2's preface is one; all others are those of `protocol.BoundedProtocol`. Each
stream runs the ASGI application. Data that the application has not taken is not acknowledged, so a client sends at most
a window ahead; the application waits while the client does not read.

Bounds, besides those of `bounds`: STREAMS_MAX streams at the same time; a stream's body is complete in any time, as
long as the client sends something on the connection every IDLE_S, or an answer is on its way.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from typing import Any, Final
from urllib.parse import unquote

import h2.config
import h2.connection
import h2.errors
import h2.events
import h2.exceptions
import h2.settings
from starlette.types import Message, Scope

from broker_cy.http.bounds import HEAD_BYTES_MAX, admitted
from broker_cy.http.protocol import BoundedProtocol

PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
ALPN: Final = ("h2", "http/1.1")
STREAMS_MAX: Final = 128
IDLE_S: Final = 60.0
# Headers that are those of HTTP/1.1's connections, which HTTP/2 forbids.
_OF_CONNECTIONS: Final = frozenset(
    {b"connection", b"keep-alive", b"transfer-encoding", b"upgrade", b"proxy-connection"}
)

_log = logging.getLogger("uvicorn.error")


class SwitchingProtocol(asyncio.Protocol):
    """One connection before it is known whether it is HTTP/2. The arguments are uvicorn's."""

    def __init__(self, *own: Any, **named: Any) -> None:
        self._own, self._named = own, named
        self._inner: asyncio.Protocol = BoundedProtocol(*own, **named)
        self._begun = bytearray()
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._transport = transport
        session = transport.get_extra_info("ssl_object")
        if session is not None and session.selected_alpn_protocol() == "h2":
            self._switch_to_http2(b"")
            return
        # Until the first bytes, the bounds are those of HTTP/1.1.
        self._inner.connection_made(transport)

    def data_received(self, data: bytes) -> None:
        self._begun += data
        known = bytes(self._begun[: len(PREFACE)])
        if PREFACE.startswith(known) and len(known) < len(PREFACE):
            return
        if known == PREFACE:
            # An exception: otherwise it would close the transport.
            self._inner.connection_lost(ConnectionAbortedError())
            self._switch_to_http2(bytes(self._begun))
            return
        self._transport.set_protocol(self._inner)
        self._inner.data_received(bytes(self._begun))

    def _switch_to_http2(self, data: bytes) -> None:
        inner = Http2Protocol(*self._own, **self._named)
        self._inner = inner
        self._transport.set_protocol(inner)
        inner.connection_made(self._transport)
        if data:
            inner.data_received(data)

    def eof_received(self) -> bool | None:
        return self._inner.eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        self._inner.connection_lost(exc)


class _Stream:
    """A request and its answer."""

    def __init__(self, stream_id: int, connection: Http2Protocol) -> None:
        self.id = stream_id
        self._connection = connection
        # Parts of the body that the application has not taken, and the bytes that their frames had on the wire.
        self._body: deque[tuple[bytes, int]] = deque()
        self._is_whole = False
        self.is_gone = False
        self._news = asyncio.Event()
        self.window = asyncio.Event()
        self.has_started = False
        self.has_ended = False

    def add(self, data: bytes, on_wire: int) -> None:
        self._body.append((data, on_wire))
        self._news.set()

    def complete(self) -> None:
        self._is_whole = True
        self._news.set()

    def lose(self) -> None:
        """The client, or the connection, has gone."""
        self.is_gone = True
        self._news.set()
        self.window.set()

    async def receive(self) -> Message:
        while True:
            if self._body:
                data, on_wire = self._body.popleft()
                self._connection.taken(self, on_wire)
                return {"type": "http.request", "body": data, "more_body": bool(self._body) or not self._is_whole}
            if self.is_gone or self.has_ended:
                return {"type": "http.disconnect"}
            if self._is_whole and not self._was_given:
                self._was_given = True
                return {"type": "http.request", "body": b"", "more_body": False}
            self._news.clear()
            await self._news.wait()

    _was_given = False

    async def send(self, message: Message) -> None:
        if self.is_gone:
            return
        if message["type"] == "http.response.start":
            self.has_started = True
            headers = [(b":status", str(message["status"]).encode())]
            headers += [
                (name.lower(), value)
                for name, value in message.get("headers", ())
                if name.lower() not in _OF_CONNECTIONS
            ]
            self._connection.send_headers(self, headers)
        elif message["type"] == "http.response.body":
            more = bool(message.get("more_body", False))
            await self._connection.send_body(self, message.get("body", b""), is_last=not more)
            self.has_ended = self.has_ended or not more


class Http2Protocol(asyncio.Protocol):
    """One connection of HTTP/2. The arguments are uvicorn's."""

    def __init__(
        self, config: Any, server_state: Any, app_state: dict[str, Any], _loop: asyncio.AbstractEventLoop | None = None
    ) -> None:
        self.config = config
        self.app_state = app_state
        self.loop = _loop or asyncio.get_running_loop()
        self.connections: set[Any] = server_state.connections
        self._server_state = server_state
        self._streams: dict[int, _Stream] = {}
        self._can_write = asyncio.Event()
        self._can_write.set()
        self._idle: asyncio.TimerHandle | None = None
        self._is_ending = False
        self._h2 = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False, header_encoding=None))
        self._h2.local_settings = h2.settings.Settings(
            client=False,
            initial_values={
                h2.settings.SettingCodes.MAX_CONCURRENT_STREAMS: STREAMS_MAX,
                h2.settings.SettingCodes.MAX_HEADER_LIST_SIZE: HEAD_BYTES_MAX,
            },
        )

    # ---- the connection

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self.connections.add(self)
        self._transport = transport
        # Its deadline is replaced by that of an idle connection.
        self._bounds = admitted(self, transport, self.loop)
        self._bounds.done()
        self._client = transport.get_extra_info("peername")
        self._server = transport.get_extra_info("sockname")
        self._scheme = "https" if transport.get_extra_info("ssl_object") is not None else "http"
        self._h2.initiate_connection()
        self._flush()
        self._wait_for_more()

    def connection_lost(self, exc: Exception | None) -> None:
        self.connections.discard(self)
        self._bounds.close()
        if self._idle is not None:
            self._idle.cancel()
        self._can_write.set()
        for stream in self._streams.values():
            stream.lose()

    def eof_received(self) -> bool:
        return False

    def data_received(self, data: bytes) -> None:
        try:
            events = self._h2.receive_data(data)
        except h2.exceptions.ProtocolError as error:
            _log.debug("HTTP/2: %s", error)
            # The answer names the error to the client.
            self._flush()
            self._transport.close()
            return
        for event in events:
            self._take(event)
        self._flush()
        self._wait_for_more()

    def pause_writing(self) -> None:
        self._can_write.clear()
        self._bounds.stall()

    def resume_writing(self) -> None:
        self._can_write.set()
        self._bounds.resume()

    def shutdown(self) -> None:
        """uvicorn calls this when the server ends."""
        self._is_ending = True
        with contextlib.suppress(h2.exceptions.ProtocolError):
            self._h2.close_connection()
        self._flush()
        if not self._streams:
            self._transport.close()

    def _wait_for_more(self) -> None:
        """Close the connection after a time without streams and without data."""
        if self._idle is not None:
            self._idle.cancel()
        self._idle = self.loop.call_later(IDLE_S, self._close_if_idle)

    def _close_if_idle(self) -> None:
        answering = any(each.has_started and not each.has_ended for each in self._streams.values())
        if answering:
            self._wait_for_more()
            return
        self.shutdown()
        self._transport.close()

    def _flush(self) -> None:
        data = self._h2.data_to_send()
        if data and not self._transport.is_closing():
            self._transport.write(data)

    # ---- events

    def _take(self, event: h2.events.Event) -> None:
        if isinstance(event, h2.events.RequestReceived):
            self._begin(event)
        elif isinstance(event, h2.events.DataReceived):
            stream = self._streams.get(event.stream_id or 0)
            if stream is not None and not stream.has_ended:
                stream.add(event.data or b"", event.flow_controlled_length or 0)
            else:
                # The answer has been sent: the rest of the body is dropped, and the connection's window stays open.
                self._h2.acknowledge_received_data(event.flow_controlled_length or 0, event.stream_id or 0)
        elif isinstance(event, h2.events.StreamEnded):
            if (stream := self._streams.get(event.stream_id or 0)) is not None:
                stream.complete()
        elif isinstance(event, h2.events.StreamReset):
            if (stream := self._streams.pop(event.stream_id or 0, None)) is not None:
                stream.lose()
        elif isinstance(event, h2.events.WindowUpdated):
            found = self._streams.get(event.stream_id or 0)
            for each in [found] if found is not None else list(self._streams.values()):
                each.window.set()
        elif isinstance(event, h2.events.RemoteSettingsChanged):
            for each in self._streams.values():
                each.window.set()
        elif isinstance(event, h2.events.ConnectionTerminated):
            self._transport.close()

    def _begin(self, event: h2.events.RequestReceived) -> None:
        stream_id = event.stream_id or 0
        headers = [(bytes(name), bytes(value)) for name, value in event.headers or ()]
        pseudo = dict(each for each in headers if each[0].startswith(b":"))
        raw_path, _, query = pseudo.get(b":path", b"/").partition(b"?")
        plain = [each for each in headers if not each[0].startswith(b":")]
        if b":authority" in pseudo and not any(name == b"host" for name, _ in plain):
            plain.insert(0, (b"host", pseudo[b":authority"]))
        scope: Scope = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": "2",
            "server": self._server[:2] if self._server else None,
            "client": self._client[:2] if self._client else None,
            "scheme": self._scheme,
            "method": pseudo.get(b":method", b"GET").decode("latin-1"),
            "root_path": "",
            "path": unquote(raw_path.decode("latin-1")),
            "raw_path": raw_path,
            "query_string": query,
            "headers": plain,
            "state": self.app_state.copy(),
        }
        stream = self._streams[stream_id] = _Stream(stream_id, self)
        task = self.loop.create_task(self._run(stream, scope))
        self._server_state.tasks.add(task)
        task.add_done_callback(self._server_state.tasks.discard)

    async def _run(self, stream: _Stream, scope: Scope) -> None:
        try:
            await self.config.loaded_app(scope, stream.receive, stream.send)
        except Exception:
            _log.exception("%s %s", scope["method"], scope["path"])
        finally:
            if not stream.has_ended and not stream.is_gone:
                with contextlib.suppress(h2.exceptions.ProtocolError):
                    self._h2.reset_stream(stream.id, h2.errors.ErrorCodes.INTERNAL_ERROR)
            stream.has_ended = True
            if self._streams.pop(stream.id, None) is not None:
                self._flush()
            if self._is_ending and not self._streams:
                self._transport.close()

    # ---- for streams

    def taken(self, stream: _Stream, on_wire: int) -> None:
        """Let the client send as much again."""
        if on_wire and not stream.is_gone:
            with contextlib.suppress(h2.exceptions.ProtocolError):
                self._h2.acknowledge_received_data(on_wire, stream.id)
                self._flush()

    def send_headers(self, stream: _Stream, headers: list[tuple[bytes, bytes]]) -> None:
        try:
            self._h2.send_headers(stream.id, headers)
        except h2.exceptions.ProtocolError:
            stream.lose()
            return
        self._flush()

    async def send_body(self, stream: _Stream, body: bytes, *, is_last: bool) -> None:
        """Send a part of the answer, as far as the windows of the client allow."""
        view = memoryview(body)
        while not stream.is_gone:
            await self._can_write.wait()
            try:
                room = min(self._h2.local_flow_control_window(stream.id), self._h2.max_outbound_frame_size)
                if room > 0 or not view:
                    part, view = view[:room], view[room:]
                    is_end = is_last and not view
                    if part or is_end:
                        self._h2.send_data(stream.id, bytes(part), end_stream=is_end)
                        self._flush()
                    if not view:
                        return
                    continue
            except h2.exceptions.ProtocolError:
                stream.lose()
                return
            stream.window.clear()
            await stream.window.wait()
