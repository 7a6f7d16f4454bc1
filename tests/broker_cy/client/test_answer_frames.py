"""The answers of a connection: every byte once and in order, however it arrives."""

from __future__ import annotations

import struct
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_cy.client.answer_frames import KEPT_BYTES_MAX, SHORT_BYTES, UNNEEDED_MAX, AnswerFrames

NEAR = st.integers(-9, 9)
SIZES = st.lists(
    st.one_of(st.integers(4, 20), NEAR.map(lambda each: SHORT_BYTES + each), st.integers(4, 3 * SHORT_BYTES)),
    min_size=1,
    max_size=6,
)


def content(size: int) -> bytes:
    """Bytes whose place is seen in them."""
    return b"".join(number.to_bytes(4) for number in range(size // 4 + 1))[:size]


class Frames(AnswerFrames):
    """Keeps its arguments: the objects, or only their bytes."""

    def __init__(self, *, holds: bool) -> None:
        super().__init__()
        self.holds = holds
        self.found: list[bytes | memoryview] = []
        self.reasons: list[str] = []

    def answered(self, answer: memoryview) -> None:
        self.found.append(answer if self.holds else bytes(answer))

    def broke(self, reason: str) -> None:
        self.reasons.append(reason)

    def arrive(self, data: bytes) -> None:
        """As the loop does it, which reads as much as there is room for."""
        left = memoryview(data)
        while left:
            room = self.get_buffer(len(left))
            assert len(room) > 0
            taken = min(len(room), len(left))
            room[:taken] = left[:taken]
            self.buffer_updated(taken)
            left = left[taken:]


@given(sizes=SIZES, cuts=st.lists(st.integers(0, 1 << 20), max_size=8), holds=st.booleans())
def test_every_byte_comes_once_and_in_order(sizes: list[int], cuts: list[int], holds: bool) -> None:
    """If this fails, a follower writes records to its log that its leader does not have. `holds`: a caller keeps the
    answers, so their memory must not be reused.
    """
    answers = [bytes([number]) + content(size - 1) for number, size in enumerate(sizes)]
    whole = b"".join(struct.pack(">i", len(each)) + each for each in answers)
    frames = Frames(holds=holds)
    for begin, end in pairwise(sorted({0, *(cut % len(whole) for cut in cuts), len(whole)})):
        frames.arrive(whole[begin:end])
    assert [bytes(each) for each in frames.found] == answers
    assert frames.reasons == []


def test_the_memory_of_a_long_answer_is_used_again_and_not_kept_if_it_is_very_long() -> None:
    """If this fails, each answer of a follower's leader costs as much again, or a follower keeps the memory of the
    longest answer that it ever got.
    """
    frames = Frames(holds=False)
    for size in (SHORT_BYTES, SHORT_BYTES * 2, SHORT_BYTES, KEPT_BYTES_MAX + 1):
        frames.arrive(struct.pack(">i", size) + content(size))
    kept = id(frames._kept)
    assert len(frames._kept) == SHORT_BYTES * 2
    frames.arrive(struct.pack(">i", SHORT_BYTES))
    frames.arrive(content(10))
    assert id(frames.get_buffer(1).obj) == kept


@pytest.mark.parametrize("size", [10, SHORT_BYTES])
def test_memory_that_is_no_longer_needed_is_given_back(size: int) -> None:
    """If this fails, a follower keeps the memory of its longest answers after it has caught up."""
    frames = Frames(holds=False)
    needed = 5 * SHORT_BYTES
    for number in range(3 * UNNEEDED_MAX):
        frames.arrive(struct.pack(">i", size) + content(size))
        if number % (UNNEEDED_MAX - 1) == 0:
            frames.arrive(struct.pack(">i", needed) + content(needed))
        assert len(frames._kept) == needed
    for _ in range(UNNEEDED_MAX):
        frames.arrive(struct.pack(">i", size) + content(size))
    assert len(frames._kept) in (0, size)


def test_what_no_broker_sends_is_an_error() -> None:
    """If this fails, a client that connects to a port of another protocol waits until its own timeout."""
    frames = Frames(holds=False)
    frames.arrive(b"HTTP/1.1 400 Bad Request")
    assert "is this a Kafka listener" in frames.reasons[0]


@pytest.mark.parametrize("arrived", [0, 5, SHORT_BYTES])
def test_an_end_within_an_answer_is_an_error(arrived: int) -> None:
    """If this fails, a client whose broker dies in the middle of a response waits until its own timeout."""
    frames = Frames(holds=False)
    frames.arrive((struct.pack(">i", 2 * SHORT_BYTES) + content(SHORT_BYTES))[:arrived])
    assert frames.eof_received() is False
    assert frames.reasons == ["the broker closed the connection"]
    assert frames.found == []
