"""The stream of a connection's answers, whose long ones are gathered where they stay.

A StreamReader copies what arrives into its buffer, which grows with it, and from there into what it returns, and it
wakes its reader for each piece. A follower that fetches megabytes would do that all the time.
"""

from __future__ import annotations

import asyncio
from typing import Final

# Shorter answers mostly arrive in one piece, and cost less as StreamReader reads them.
LONG_BYTES: Final = 32 << 10


class AnswerReader(asyncio.StreamReader):
    """A StreamReader that is read by `read_exactly` alone, by one task.

    Invariant: while an answer is being gathered, the stream's own buffer is empty.
    """

    def __init__(self, limit: int, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(limit, loop)
        self._own_loop = loop
        self._held = 0  # bytes in the buffer of the stream
        self._answer: bytearray | None = None
        self._filled = 0  # of `_answer`
        self._whole: asyncio.Future[None] | None = None

    async def read_exactly(self, size: int) -> bytes | bytearray:
        """Return the next `size` bytes. Raises IncompleteReadError if the stream ends before, OSError if it breaks."""
        if size < LONG_BYTES or self._held >= size:
            found = await self.readexactly(size)
            self._held -= size
            return found
        answer = bytearray(size)
        if taken := self._held:
            answer[:taken] = await self.readexactly(taken)
            self._held = 0
        if self.at_eof():
            raise asyncio.IncompleteReadError(bytes(answer[:taken]), size)
        if (error := self.exception()) is not None:
            raise error
        self._answer, self._filled, self._whole = answer, taken, self._own_loop.create_future()
        try:
            await self._whole
        finally:
            self._answer = self._whole = None
        return answer

    def feed_data(self, data: bytes | bytearray | memoryview) -> None:  # type: ignore[override]
        """Take what has arrived: into the answer that is being gathered, and the rest into the buffer."""
        if (answer := self._answer) is not None and (wanted := len(answer) - self._filled):
            taken = min(wanted, len(data))
            answer[self._filled : self._filled + taken] = data if taken == len(data) else memoryview(data)[:taken]
            self._filled += taken
            if taken == wanted and self._whole is not None and not self._whole.done():
                self._whole.set_result(None)
            if taken == len(data):
                return
            data = data[taken:]
        self._held += len(data)
        super().feed_data(data)

    def feed_eof(self) -> None:
        """The peer sends nothing more."""
        super().feed_eof()
        if self._whole is not None and self._answer is not None and not self._whole.done():
            part = bytes(self._answer[: self._filled])
            self._whole.set_exception(asyncio.IncompleteReadError(part, len(self._answer)))

    def set_exception(self, exc: Exception) -> None:
        """The connection broke."""
        super().set_exception(exc)
        if self._whole is not None and not self._whole.done():
            self._whole.set_exception(exc)
