"""The store of unmatched records of stream-stream joins."""

from __future__ import annotations

from broker_streams.plan.stores import Store, StoreKind
from tests.broker_streams.kernel.stores.support import LONG, TEXT, Opened

STORE = Store("rows", StoreKind.JOIN_OUTER, options={"left_serde": TEXT, "right_serde": LONG})


def test_records_wait_in_the_order_of_time_side_and_key() -> None:
    """If this fails, a left or outer join emits its unmatched records in another order than Kafka's, or loses some."""
    store = Opened(STORE).store
    store.put("b", 5, True, "one")
    store.put("a", 5, True, "two")
    store.put("a", 5, True, "three")
    store.put("z", 5, False, 7)
    store.put("z", 4, False, 8)
    rows = [
        ("z", 4, False, 8),
        ("z", 5, False, 7),
        ("a", 5, True, "two"),
        ("a", 5, True, "three"),
        ("b", 5, True, "one"),
    ]
    assert list(store.all()) == rows
    for shown, _, is_left, _ in store.all():
        store.remove(shown, 5, is_left)
    assert list(store.all()) == rows[:1]


def test_the_changelog_has_kafkas_lists() -> None:
    """If this fails, Kafka Streams cannot take over a join, and this engine cannot take over Kafka's."""
    opened = Opened(STORE)
    store = opened.store
    opened.at(9)
    store.put("k", 5, True, "a")
    store.put("k", 5, True, "bc")
    store.put("k", 5, False, 1)
    key = bytes.fromhex("0000000000000005 01 6b")
    assert opened.log == [
        ("rows", key, bytes.fromhex("01 00000001 00000002 0161"), 9),
        ("rows", key, bytes.fromhex("01 00000002 00000002 0161 00000003 016263"), 9),
        (
            "rows",
            bytes.fromhex("0000000000000005 00 6b"),
            bytes.fromhex("01 00000001 00000009 00 0000000000000001"),
            9,
        ),
    ]
    store.remove_if_present("absent", 5, True)
    store.remove_if_present("k", 5, True)
    store.put("k", 5, False, None)
    store.remove("k", 5, False)
    assert [(logged[1][8:9], logged[2]) for logged in opened.log[3:]] == [(b"\1", None), (b"\0", None), (b"\0", None)]

    restored = Opened(STORE)
    for _, data, values, timestamp in opened.log[:3]:
        restored.store.restore(data, values, timestamp)
    assert list(restored.store.all()) == [("k", 5, False, 1), ("k", 5, True, "a"), ("k", 5, True, "bc")]
