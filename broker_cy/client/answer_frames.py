"""The answers of a connection as the loop reads them: each answer is passed on when it is complete.

The loop reads into memory of this class. Short answers are copied out of one buffer. A long answer is gathered in its
own memory, which is reused once the answer is no longer referenced: a follower fetches megabytes all the time, and
fresh memory for each answer costs as much as copying it.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Final

from broker_cy.client.exchange import SIZE_BYTES, Exchange, ExchangeError

CLOSED: Final = "the broker closed the connection"
# The most bytes that one read takes while no long answer is gathered.
SHORT_BYTES: Final = 64 << 10
# Memory of a long answer that is kept for the next one. The bound exceeds a follower's default fetch size. The memory
# is freed when UNNEEDED_MAX answers in a row needed less than a quarter of it.
KEPT_BYTES_MAX: Final = 16 << 20
UNNEEDED_MAX: Final = 100
_UNSHARED: Final = 2  # references to memory that only an attribute has: that one, and the argument of getrefcount


class AnswerFrames(asyncio.BufferedProtocol):
    """A subclass receives the answers (`answered`) and the end of the connection (`broke`).

    Invariant: `_long` is the answer that is being gathered; `_filled` of its `_wanted` bytes have arrived. Meanwhile
    `_short` is empty.
    """

    def __init__(self) -> None:
        self._short = bytearray(SHORT_BYTES)
        self._from = self._to = 0  # the range of `_short` that is not taken yet
        self._kept = bytearray()
        self._unneeded = 0  # answers in a row that needed less than a quarter of it
        self._long: memoryview | None = None
        self._wanted = self._filled = 0

    def answered(self, answer: memoryview) -> None:
        """A whole answer, without its size. Raises ExchangeError for bytes that no broker sends."""
        raise NotImplementedError

    def broke(self, reason: str) -> None:
        """The peer sends nothing more, or has sent bytes that no broker sends."""
        raise NotImplementedError

    # --- called by the loop

    def get_buffer(self, sizehint: int) -> memoryview:
        if self._long is not None:
            return self._long[self._filled :]
        return memoryview(self._short)[self._to :]

    def buffer_updated(self, nbytes: int) -> None:
        try:
            if self._long is None:
                self._to += nbytes
                self._take_short()
                return
            self._filled += nbytes
            if self._filled == self._wanted:
                answer, self._long = self._long, None
                self.answered(answer)
        except ExchangeError as error:
            self.broke(str(error))

    def eof_received(self) -> bool:
        self.broke(CLOSED)
        return False

    # --- answers

    def _take_short(self) -> None:
        """Take the answers that wait; begin to gather one that is longer than the buffer."""
        at, end = self._from, self._to
        while end - at >= SIZE_BYTES:
            size = Exchange.answer_bytes(self._short, at)
            begin = at + SIZE_BYTES
            if size > end - begin:
                if begin + size > SHORT_BYTES:
                    self._gather(size, begin, end)
                    at = end
                break
            at = begin + size
            if self._kept:
                self._note_need(size)
            # Advance first: taking the answer may end the connection, and later bytes follow this answer.
            self._from = at
            self.answered(memoryview(bytes(memoryview(self._short)[begin:at])))
        if at == end:
            at = end = 0
        elif end == SHORT_BYTES:
            # The rest is shorter than a size; with more bytes, the length of the answer would be known.
            self._short[: end - at] = self._short[at:end]
            at, end = 0, end - at
        self._from, self._to = at, end

    def _gather(self, size: int, begin: int, end: int) -> None:
        """Take the bytes of a long answer that have arrived, and read the rest into its own memory."""
        self._note_need(size)
        if len(self._kept) < size or sys.getrefcount(self._kept) != _UNSHARED:
            memory = bytearray(size)
            if size <= KEPT_BYTES_MAX:
                self._kept = memory
        else:
            memory = self._kept
        self._long = memoryview(memory)[:size]
        self._wanted, self._filled = size, end - begin
        self._long[: self._filled] = memoryview(self._short)[begin:end]

    def _note_need(self, size: int) -> None:
        """Give memory back that a long answer needed, and those after it do not."""
        self._unneeded = self._unneeded + 1 if 4 * size < len(self._kept) else 0
        if self._unneeded >= UNNEEDED_MAX:
            self._unneeded = 0
            self._kept = bytearray()
