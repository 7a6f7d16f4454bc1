"""Request frames, and reading from a blocking socket, for requests and logins of the benchmark."""

import socket
import struct

CLIENT_ID = b"broker-cy-bench"


def frame(api_key: int, version: int, body: bytes, correlation_id: int = 0, flexible: bool = True) -> bytes:
    """Return size, request header (v2 if flexible, else v1) and body."""
    header = struct.pack(">hhih", api_key, version, correlation_id, len(CLIENT_ID)) + CLIENT_ID
    if flexible:
        header += b"\0"
    return struct.pack(">i", len(header) + len(body)) + header + body


def exactly(sock: socket.socket, size: int) -> bytes:
    """Receive `size` bytes. Raises OSError."""
    found = bytearray()
    while len(found) < size:
        part = sock.recv(size - len(found))
        if not part:
            raise ConnectionResetError("the target closed the connection")
        found += part
    return bytes(found)
