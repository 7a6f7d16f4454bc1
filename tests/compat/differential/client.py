"""Sends requests of our codec to a broker over a raw socket, without retries, and returns every response."""

from __future__ import annotations

import contextlib
import socket
import struct
from typing import Any

from broker_cy.wire import codec, frame
from broker_cy.wire.layout import Message
from tests.support.raw_wire import receive_exactly

CLIENT_ID = "differential"
# Kafka answers some requests after 15 s, and later on a busy machine.
DEADLINE_S = 60.0
CLOSED = "the broker closed the connection"
# A message of the response's class, or CLOSED: only the caller knows which class it is.
Answer = Any


class Client:
    """One connection, opened at the first request and again after the broker has closed it.

    Responses arrive in the order of the requests. `CLOSED` stands for a response that never came because the broker
    closed the connection.
    """

    def __init__(self, address: tuple[str, int], source_host: str | None = None) -> None:
        """`source_host` is the address from which the connection comes; None: the system chooses."""
        self._address = address
        self._source = (source_host, 0) if source_host is not None else None
        self._sock: socket.socket | None = None
        self._correlation_id = 0
        self._asked: list[tuple[int, int, int]] = []  # correlation id, api key, version

    def send(
        self,
        request: Message,
        version: int,
        trailing: bytes = b"",
        header_tags: bytes = b"\0",
        answered: bool = True,
    ) -> None:
        """Raises WireError, and sends nothing, if `request` cannot be encoded in `version`."""
        self.send_body(int(type(request).API_KEY), version, codec.encode(request, version) + trailing, header_tags)
        if not answered:
            self._asked.pop()

    def send_body(self, api_key: int, version: int, body: bytes, header_tags: bytes = b"\0") -> None:
        """Send a request whose body may be anything; `header_tags` are the tagged fields of a header that has some."""
        self._correlation_id += 1
        name = CLIENT_ID.encode()
        header = struct.pack(">hhih", api_key, version, self._correlation_id, len(name)) + name
        if 0 <= api_key <= 92 and frame.request_header_version(api_key, version) == 2:
            header += header_tags
        self.send_frame(header + body)
        self._asked.append((self._correlation_id, api_key, version))

    def send_frame(self, payload: bytes, size: int | None = None) -> None:
        """Send bytes after a length, which may be wrong."""
        sock = self._sock or socket.create_connection(self._address, DEADLINE_S, self._source)
        sock.settimeout(DEADLINE_S)
        self._sock = sock
        with contextlib.suppress(ConnectionError):  # reported by the response that does not come
            sock.sendall(struct.pack(">i", len(payload) if size is None else size) + payload)

    def receive(self, answered_version: int | None = None) -> Answer:
        """Return the response to the oldest request; `answered_version`, if it differs from the requested version."""
        correlation_id, api_key, version = self._asked.pop(0)
        payload = self.receive_frame()
        if isinstance(payload, str):
            self._asked.clear()
            return payload
        assert struct.unpack(">i", payload[:4]) == (correlation_id,), "an answer to another request"
        version = version if answered_version is None else answered_version
        at = 4
        if frame.response_header_version(api_key, version) == 1:
            assert payload[4] == 0, "the response header has tagged fields"
            at = 5
        return codec.decode(frame.response_class(api_key), version, payload[at:])

    def receive_frame(self) -> bytes | str:
        """Return the next frame without its length, or CLOSED."""
        assert self._sock is not None
        try:
            (size,) = struct.unpack(">i", receive_exactly(self._sock, 4))
            return receive_exactly(self._sock, size)
        except (EOFError, ConnectionError):
            self.close()
            return CLOSED

    def ask(self, request: Message, version: int, **how: Any) -> Answer:
        answered_version = how.pop("answered_version", None)
        self.send(request, version, **how)
        return self.receive(answered_version)

    def close(self) -> None:
        if self._sock is not None:
            self._sock.close()
            self._sock = None
