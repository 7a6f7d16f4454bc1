"""The stream of a connection's answers: every byte once and in order, however it arrives."""

from __future__ import annotations

import asyncio
from itertools import accumulate, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_cy.client.answer_reader import LONG_BYTES, AnswerReader

SIZES = st.lists(
    st.one_of(st.integers(1, 20), st.integers(LONG_BYTES - 2, LONG_BYTES + 2), st.integers(1, 3 * LONG_BYTES)),
    min_size=1,
    max_size=6,
)


def content(size: int) -> bytes:
    """Bytes whose place is seen in them."""
    return b"".join(number.to_bytes(4) for number in range(size // 4 + 1))[:size]


async def read_all(sizes: list[int], cuts: list[int], turns: int) -> list[bytes]:
    """Read answers of these sizes, of which the bytes arrive in pieces, with some turns of the loop between them."""
    reader = AnswerReader(1 << 20, asyncio.get_running_loop())
    whole = content(sum(sizes))

    async def arrive() -> None:
        for begin, end in pairwise(sorted({0, *(cut % len(whole) for cut in cuts), len(whole)})):
            reader.feed_data(whole[begin:end])
            for _ in range(turns):
                await asyncio.sleep(0)
        reader.feed_eof()

    arriving = asyncio.create_task(arrive())
    found = [bytes(await reader.read_exactly(size)) for size in sizes]
    await arriving
    with pytest.raises(asyncio.IncompleteReadError):
        await reader.read_exactly(LONG_BYTES)
    return found


@given(sizes=SIZES, cuts=st.lists(st.integers(0, 1 << 20), max_size=8), turns=st.integers(0, 3))
def test_every_byte_comes_once_and_in_order(sizes: list[int], cuts: list[int], turns: int) -> None:
    """If this fails, a follower writes records to its log that its leader does not have."""
    whole = content(sum(sizes))
    expected = [whole[end - size : end] for size, end in zip(sizes, accumulate(sizes), strict=True)]
    assert asyncio.run(read_all(sizes, cuts, turns)) == expected


@pytest.mark.parametrize("arrived", [0, 5, LONG_BYTES])
def test_an_end_within_an_answer_is_an_error(arrived: int) -> None:
    """If this fails, whoever waits for an answer of a broker that died waits until its own timeout."""

    async def cut_off() -> None:
        reader = AnswerReader(1 << 20, asyncio.get_running_loop())
        reader.feed_data(content(arrived))
        waiting = asyncio.create_task(reader.read_exactly(2 * LONG_BYTES))
        await asyncio.sleep(0)
        reader.feed_eof()
        with pytest.raises(asyncio.IncompleteReadError) as found:
            await waiting
        assert found.value.partial == content(arrived)

    asyncio.run(cut_off())


def test_a_connection_that_breaks_within_an_answer_is_an_error() -> None:
    """The same for a reset, with its reason."""

    async def broken() -> None:
        reader = AnswerReader(1 << 20, asyncio.get_running_loop())
        waiting = asyncio.create_task(reader.read_exactly(2 * LONG_BYTES))
        await asyncio.sleep(0)
        reader.set_exception(ConnectionResetError(104, "Connection reset by peer"))
        with pytest.raises(ConnectionResetError):
            await waiting
        with pytest.raises(ConnectionResetError):
            await reader.read_exactly(2 * LONG_BYTES)

    asyncio.run(broken())
