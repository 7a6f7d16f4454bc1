"""A connection with TLS, with the part of gevent's sockets that `net.connection` uses.

Python's ssl works in memory (ssl.MemoryBIO): it does not accept the sockets of a process that gevent has patched. While
a greenlet waits for the socket, other greenlets run; their data is encrypted after its own, in order. The loop does not
report data that the library has decrypted and that is still unread: `on_pending` is called for it.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable
from typing import Any, Final

import gevent
from gevent import socket

READ_BYTES: Final = 1 << 16


class TlsSocket:
    """Takes the place of `sock`, a socket of gevent, after the handshake. Raises OSError, also if the certificate of
    the server, whose name is `host`, is not valid.
    """

    def __init__(self, sock: Any, context: ssl.SSLContext, host: str, timeout_s: float) -> None:
        self._socket = sock
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname=host)
        self._unsent = bytearray()
        self._hub = gevent.get_hub()
        self._is_scheduled = False
        self.on_pending: Callable[[], None] | None = None
        try:
            with gevent.Timeout(timeout_s, TimeoutError("the TLS handshake takes too long")):
                self._shake_hands()
        except BaseException:
            sock.close()
            raise

    @property
    def _sock(self) -> TlsSocket:
        """Stands for the socket below gevent's, whose calls do not wait for input."""
        return self

    def _shake_hands(self) -> None:
        while True:
            try:
                self._tls.do_handshake()
            except ssl.SSLWantReadError:
                self._flush()
                self._feed(self._socket.recv(READ_BYTES))
            except ssl.SSLError:
                # The alert tells the server the reason.
                self._flush()
                raise
            else:
                return self._flush()

    def _feed(self, data: bytes) -> None:
        if data:
            self._incoming.write(data)
        else:
            self._incoming.write_eof()

    def _flush(self) -> None:
        """Send the encrypted data, and wait until all of it is sent."""
        self._unsent += self._outgoing.read()
        while self._unsent:
            try:
                sent = self._socket._sock.send(self._unsent)
            except BlockingIOError:
                socket.wait_write(self._socket.fileno())
            else:
                del self._unsent[:sent]

    def fileno(self) -> int:
        found: int = self._socket.fileno()
        return found

    def send(self, data: bytes | bytearray | memoryview) -> int:
        """Send all data; may wait."""
        found = self._tls.write(data)
        self._flush()
        return found

    def sendall(self, data: memoryview) -> None:
        self.send(data)

    def recv_into(self, into: memoryview) -> int:
        """Return 0 at the end of the stream. Raises BlockingIOError if nothing has arrived."""
        while True:
            try:
                count: int = self._tls.read(len(into), into)  # type: ignore[assignment]
            except ssl.SSLWantReadError:
                self._feed(self._socket._sock.recv(READ_BYTES))
            except (ssl.SSLEOFError, ssl.SSLZeroReturnError):
                return 0
            else:
                break
        if count and not self._is_scheduled and (self._tls.pending() or self._incoming.pending):
            self._is_scheduled = True
            self._hub.loop.run_callback(self._pending)
        return count

    def _pending(self) -> None:
        self._is_scheduled = False
        if self.on_pending is not None:
            self.on_pending()

    def close(self) -> None:
        self.on_pending = None
        self._socket.close()
