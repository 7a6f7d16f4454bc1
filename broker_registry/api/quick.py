"""Requests that are answered where their bytes arrive, without a task and the messages of ASGI between.

They are GETs in one piece, without a body, on a connection that stays open; all others, and all whose answers have to
wait for something, go the way of ASGI. Both ways have the same answers.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from uvicorn.protocols.http.httptools_impl import STATUS_LINE

HEAD_BYTES_MAX: Final = 8_192
HEADERS_MAX: Final = 256
"""Blocks of headers that are kept, with the logins in them: each client has the same ones in all its requests."""
_GET: Final = b"GET /"
_END: Final = b"\r\n\r\n"
_VERSION: Final = b" HTTP/1.1"
_SPECIAL: Final = (b"content-length", b"transfer-encoding", b"expect", b"upgrade", b"te", b"trailer")


class Short(NamedTuple):
    """A request: the target, the header `Accept`, empty without one, and the headers `Authorization`."""

    target: bytes
    accept: bytes = b""
    authorization: tuple[bytes, ...] = ()


class Peer(NamedTuple):
    """The client of a connection: its address, and its certificate in DER."""

    address: str
    certificate: bytes | None = None


class Requests:
    """Reads such requests."""

    def __init__(self) -> None:
        self._read: dict[bytes, tuple[bytes, tuple[bytes, ...]]] = {}

    def read(self, data: bytes) -> Short | None:
        """Return the request; None if it is none of these."""
        if data[:5] != _GET or len(data) > HEAD_BYTES_MAX or data.find(_END) != len(data) - len(_END):
            return None
        line, _, headers = data.partition(b"\r\n")
        if line[-9:] != _VERSION:
            return None
        target = line[4:-9]
        found = self._read.get(headers)
        if found is None:
            found = read_headers(headers)
            if found is None:
                return None
            if len(self._read) >= HEADERS_MAX:
                self._read.clear()
            self._read[headers] = found
        return Short(target, *found) if target.isascii() and b" " not in target and b"#" not in target else None


def read_headers(headers: bytes) -> tuple[bytes, tuple[bytes, ...]] | None:
    """Return the value of `Accept`, and those of `Authorization`; None if one of the headers needs the whole parser."""
    accept, authorization = b"", []
    for line in headers[: -len(_END)].split(b"\r\n"):
        name, colon, value = line.partition(b":")
        name = name.lower()
        if not colon or not name.replace(b"-", b"").isalnum() or name in _SPECIAL:
            return None
        if name == b"connection" and value.strip().lower() != b"keep-alive":
            return None
        if name == b"accept":
            if accept:
                return None
            accept = value.strip()
        if name == b"authorization":
            authorization.append(value.strip())
    return accept, tuple(authorization)


def head_of(status: int, content_type: bytes, length: int, more: bytes) -> bytes:
    """Return the first bytes of a response; `more` are whole lines of headers."""
    return b"%scontent-type: %s\r\ncontent-length: %d\r\n%s\r\n" % (
        STATUS_LINE[status],
        content_type,
        length,
        more,
    )
