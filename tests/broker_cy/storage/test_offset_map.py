"""The cleaner's map: bounded, exact, and it can report that it is full."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_cy.storage.cleaner.offset_map import SECRET_BYTES, OffsetMap

SECRET = bytes(range(SECRET_BYTES))


@given(st.lists(st.tuples(st.binary(max_size=20), st.integers(0, 1 << 40)), max_size=200), st.integers(48, 6_000))
def test_it_is_a_dict_until_it_is_full(pairs: list[tuple[bytes, int]], max_bytes: int) -> None:
    """If this fails, a key's newest offset is lost, or a log's keys take more memory than is allowed."""
    table = OffsetMap(max_bytes, SECRET)
    model: dict[bytes, int] = {}
    for key, offset in pairs:
        taken = table.add(key, offset)
        assert taken == (key in model or len(model) < table.capacity)
        if taken:
            model[key] = offset
        assert table.size_bytes <= max_bytes
    assert table.entries == len(model)
    for key, _ in pairs:
        assert table.get(key) == model.get(key, -1)


def test_no_room_for_one_key() -> None:
    """If this fails, a cleaner never makes progress."""
    with pytest.raises(ValueError, match="no room for one key"):
        OffsetMap(24, SECRET)
