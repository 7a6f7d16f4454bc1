"""Offset and time index against sorted lists; the files have Kafka's format."""

import os
import struct
from bisect import bisect_right

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker_cy.storage.index import OffsetIndex, TimeIndex

BASE = 1_000
increasing = st.lists(st.integers(1, 500), max_size=300).map(
    lambda steps: [sum(steps[: i + 1]) for i in range(len(steps))]
)


@settings(max_examples=60, deadline=None)
@given(increasing, st.lists(st.integers(0, 150_000), max_size=30), st.integers(0, 300), st.integers(0, 70))
def test_offset_index_finds_the_entry_at_or_before(
    tmp_path_factory: pytest.TempPathFactory, offsets: list[int], wanted: list[int], written: int, zeroes: int
) -> None:
    """If this fails, a consumer starts at the wrong batch."""
    directory = str(tmp_path_factory.mktemp("index"))
    index = OffsetIndex(directory, BASE, False)
    entries = [(BASE + offset, 5_000 + 3 * number) for number, offset in enumerate(offsets)]
    for number, entry in enumerate(entries):
        index.add(*entry)
        if number == written:
            index.write()
    check_offsets(index, entries, wanted)
    index.write()
    index.create()
    with open(index.path, "rb") as file:
        assert file.read() == b"".join(struct.pack(">ii", offset - BASE, position) for offset, position in entries)
    # As Kafka leaves it when it is killed: zeros after the entries.
    os.truncate(index.path, len(entries) * 8 + zeroes * 8 + zeroes % 8)
    check_offsets(OffsetIndex(directory, BASE), entries, wanted)
    if entries:
        again = OffsetIndex(directory, BASE)
        cut = entries[len(entries) // 2][0]
        again.truncate_to(cut)
        assert again.entries() == [entry for entry in entries if entry[0] < cut]


def check_offsets(index: OffsetIndex, entries: list[tuple[int, int]], wanted: list[int]) -> None:
    assert index.entries() == entries
    for offset in [0, *wanted]:
        at = bisect_right(entries, (BASE + offset, 1 << 40)) - 1
        assert index.find(BASE + offset) == (entries[at] if at >= 0 else (BASE, 0))
        position = 4_999 + offset // 100  # entries are 3 bytes apart here, so that some of these are between them
        behind = next((entry[0] for entry in entries if entry[1] >= position), -1)
        # The segment's size is only a hint where to search.
        assert {index.find_position(position, size) for size in (0, 5_000, 6_000, 1 << 31)} == {behind}


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.integers(0, 5_000), max_size=200), st.lists(st.integers(-1, 5_001), max_size=30), st.integers(0, 200)
)
def test_time_index_keeps_only_larger_timestamps(
    tmp_path_factory: pytest.TempPathFactory, timestamps: list[int], wanted: list[int], written: int
) -> None:
    """If this fails, a search by time ends at the wrong record."""
    directory = str(tmp_path_factory.mktemp("index"))
    index = TimeIndex(directory, BASE, False)
    entries: list[tuple[int, int]] = []
    for number, timestamp in enumerate(timestamps):
        index.add(timestamp, BASE + number)
        if not entries or timestamp > entries[-1][0]:
            entries.append((timestamp, BASE + number))
        if number == written:
            index.write()
    for again in (index, None):
        if again is None:
            index.write()
            index.create()
            with open(index.path, "rb") as file:
                assert file.read() == b"".join(struct.pack(">qi", at, offset - BASE) for at, offset in entries)
            again = TimeIndex(directory, BASE)
        assert again.entries() == entries
        assert again.last == (entries[-1] if entries else (-1, BASE))
        for timestamp in wanted:
            at = bisect_right(entries, (timestamp, 1 << 40)) - 1
            assert again.find(timestamp) == (entries[at] if at >= 0 else (-1, BASE))
