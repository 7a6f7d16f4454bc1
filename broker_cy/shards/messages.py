"""The messages of a parent and a shard over a Unix socket: frames of a length, a kind and a content.

The first frame is the shard's HELLO, with the descriptor of the memory for its ticks (SCM_RIGHTS); the parent answers
with WELCOME, and only then the shard sends more. JSON is the content of all but PAGE.
"""

from __future__ import annotations

import asyncio
import json
import mmap
import struct
from collections.abc import Callable
from enum import IntEnum
from typing import Any, Final

HEADER: Final = struct.Struct(">IB")
# A page of metrics: 100,000 partitions have 60 MB of lines.
CONTENT_BYTES_MAX: Final = 256 << 20
HELLO_BYTES_MAX: Final = 4_096


class Kind(IntEnum):
    """The kind of a message; comments name its sender and content."""

    HELLO = 1  # shard: {"shard", "pid", "settings"}
    WELCOME = 2  # parent: {}
    READY = 3  # shard: {"addresses"}: it serves clients
    MISSING = 4  # shard: {"missing"}: the reasons why it is not ready, see /readyz
    ENDED = 5  # parent: {"broker", "epoch"}: this incarnation of another shard has ended
    ASK_PAGE = 6  # parent: {"topics"}: null or names; {"share_group"}: a name; or {"mirrors"}
    PAGE = 7  # shard: the page, in the order of the questions


def frame(kind: Kind, content: object = None) -> bytes:
    """One frame; `content` is bytes for PAGE, and a JSON value otherwise."""
    body = content if isinstance(content, bytes) else json.dumps(content or {}).encode()
    return HEADER.pack(len(body), kind) + body


def parse(data: bytes) -> tuple[Kind, Any]:
    """The kind and content of exactly one frame. Raises ValueError."""
    try:
        size, kind = HEADER.unpack_from(data)
    except struct.error as error:
        raise ValueError(str(error)) from None
    if size != len(data) - HEADER.size:
        raise ValueError(f"a frame of {len(data)} bytes says that it has {size}")
    return Kind(kind), json.loads(data[HEADER.size :])


def missing(data: bytes) -> int:
    """How many bytes the first frame lacks that begins with `data`. Raises ValueError if it is no short one."""
    if len(data) < HEADER.size:
        return HEADER.size - len(data)
    size: int = HEADER.unpack_from(data)[0]
    if size > HELLO_BYTES_MAX:
        raise ValueError(f"a first frame of {size} bytes: at most {HELLO_BYTES_MAX} are allowed")
    return HEADER.size + size - len(data)


def receive(recv: Callable[[int], bytes]) -> tuple[Kind, Any]:
    """The next short frame of a stream, which `recv` reads and waits for, and not a byte of those behind it. Raises
    OSError, ValueError.
    """
    data = b""
    while left := missing(data):
        part = recv(left)
        if not part:
            raise ConnectionResetError("the other end has closed the connection")
        data += part
    return parse(data)


async def read(reader: asyncio.StreamReader) -> tuple[Kind, Any]:
    """The next frame. Raises EOFError (IncompleteReadError), OSError, ValueError."""
    size, kind = HEADER.unpack(await reader.readexactly(HEADER.size))
    if size > CONTENT_BYTES_MAX:
        raise ValueError(f"a frame of {size} bytes: at most {CONTENT_BYTES_MAX} are allowed")
    body = await reader.readexactly(size)
    return Kind(kind), body if kind == Kind.PAGE else json.loads(body)


class Ticks:
    """The memory that a shard shares with its parent: three numbers, which only the shard writes."""

    BYTES: Final = 4_096
    _TICKS, _EPOCH, _LOADED = range(3)

    def __init__(self, fd: int) -> None:
        """Raises OSError, ValueError if `fd` is not such memory."""
        self._map = mmap.mmap(fd, self.BYTES)
        self._words = memoryview(self._map).cast("q")

    def tick(self, epoch: int) -> None:
        """The loop runs, and the broker has this epoch, -1 for none."""
        self._words[self._EPOCH] = epoch
        self._words[self._TICKS] += 1

    def load(self, logs: int) -> None:
        """So many logs are loaded."""
        self._words[self._LOADED] = logs

    @property
    def count(self) -> int:
        """0 until the shard serves."""
        return self._words[self._TICKS]

    @property
    def epoch(self) -> int:
        """-1 until the shard serves: an incarnation without a tick has no epoch that clients know."""
        return self._words[self._EPOCH] if self.count else -1

    @property
    def loaded(self) -> int:
        return self._words[self._LOADED]

    def close(self) -> None:
        self._words.release()
        self._map.close()
