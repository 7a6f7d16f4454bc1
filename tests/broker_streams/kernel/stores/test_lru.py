"""Stores with a bounded number of rows."""

from __future__ import annotations

from typing import Any

import pytest

from broker_streams import LONG, STRING, MockProcessorContext, Store, StoreKind

COUNTS = Store("counts", StoreKind.KEY_VALUE, STRING, LONG, persistent=False, options={"max_rows": 2})


def test_the_row_that_was_used_longest_ago_goes() -> None:
    """If this fails, a store grows without a bound, or loses rows that are in use."""
    context = MockProcessorContext(stores=[COUNTS])
    store: Any = context.state_store("counts")
    store.put("a", 1)
    store.put("b", 2)
    assert store.get("a") == 1
    assert list(store.all()) == [("a", 1), ("b", 2)]
    store.put("c", 3)
    assert list(store.all()) == [("a", 1), ("c", 3)]
    assert list(store.reverse_range("b", "d")) == [("c", 3)]
    # As in Kafka, the deletion of the dropped row is in front of the change.
    logged = [(key, value is None) for _, key, value, *_ in context.changes]
    assert logged == [(b"a", False), (b"b", False), (b"b", True), (b"c", False)]
    store.restore(b"d", b"\0" * 8, 0)
    assert [key for key, _ in store.all()] == ["c", "d"]
    assert len(context.changes) == 4
    assert store.delete("d") == 0
    assert store.approximate_num_entries() == 1


def test_a_changelog_with_many_records_leaves_its_rows() -> None:
    """If this fails, a store begins with other rows than it had."""
    store: Any = MockProcessorContext(stores=[COUNTS]).state_store("counts")
    store.put("x", 1)
    store.put("y", 1)
    changes = [("z", 1), ("z", None), ("x", None), ("z", 2)]
    store.restore_rows({key.encode(): value and LONG.serialize("", value) for key, value in changes})
    assert list(store.all()) == [("y", 1), ("z", 2)]


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        ({"options": {"max_rows": 0}}, "max_rows is 0; at least 1 is allowed"),
        ({"persistent": True}, "store counts has max_rows, which is for key-value stores with persistent=False"),
    ],
)
def test_a_wrong_bound_is_named(changed: dict[str, Any], text: str) -> None:
    """If this fails, a bound has no effect."""
    from dataclasses import replace

    with pytest.raises(ValueError, match=text):
        MockProcessorContext(stores=[replace(COUNTS, **changed)])
