"""Joins by a foreign key: the instructions of the left side, the answers of the right one, and stale answers."""

from __future__ import annotations

from typing import Any

import pytest

from broker_streams.kernel.errors import StreamsError
from broker_streams.kernel.murmur3 import hash128
from broker_streams.kernel.processors.foreign_key_join import CombinedKey
from broker_streams.plan.steps.foreign_key_join import (
    ForeignTableJoin,
    ResponseJoin,
    SubscriptionJoin,
    SubscriptionReceive,
    SubscriptionSend,
)
from broker_streams.plan.stores import Store
from broker_streams.plan.value_getters import StoreGetter
from broker_streams.records import Change, Record, ValueAndTimestamp
from broker_streams.serdes.primitives import BYTES, STRING
from broker_streams.serdes.subscriptions import Instruction, Response, Subscription, SubscriptionSerde
from tests.broker_streams.kernel.processors.running import Running, function, rows_of

DELETE, DELETE_AND_ANSWER, ANSWER_ALWAYS, ANSWER_IF_FOUND = Instruction
# The foreign key of "x1" is x; that of "-1" is None.
FIRST = function(lambda value: None if value[0] == "-" else value[0])


def sending(is_left: bool, **options: Any) -> Running:
    return Running(SubscriptionSend(FIRST, False, is_left, "sent", STRING, STRING, **options))


SENT: list[tuple[bool, Any, Any, list[tuple[Any, Instruction]]]] = [
    (False, "x1", None, [("x", ANSWER_IF_FOUND)]),
    (False, "x2", "x1", [("x", ANSWER_IF_FOUND)]),
    (False, "y1", "x1", [("x", DELETE), ("y", ANSWER_ALWAYS)]),
    (False, "-1", "x1", [("x", DELETE_AND_ANSWER)]),
    (False, "-1", None, []),
    (False, "x1", "-1", [("x", ANSWER_IF_FOUND)]),
    (False, None, "x1", [("x", DELETE_AND_ANSWER)]),
    (False, None, "-1", []),
    (False, None, None, []),
    (True, "x1", None, [("x", ANSWER_ALWAYS)]),
    (True, "x2", "x1", [("x", ANSWER_ALWAYS)]),
    (True, "y1", "x1", [("x", DELETE), ("y", ANSWER_ALWAYS)]),
    (True, "-1", "x1", [("x", DELETE), (None, ANSWER_ALWAYS)]),
    (True, "-1", None, [(None, ANSWER_ALWAYS)]),
    (True, None, "x1", [("x", DELETE), (None, ANSWER_ALWAYS)]),
    (True, None, None, []),
]


@pytest.mark.parametrize(("is_left", "new", "old", "expected"), SENT)
def test_a_row_subscribes_to_its_foreign_key(
    is_left: bool, new: Any, old: Any, expected: list[tuple[Any, Instruction]]
) -> None:
    """If this fails, a row keeps the result of a foreign key that it does not have any more, or has none at all."""
    hashed = None if new is None else hash128(new.encode())
    assert sending(is_left).change("k", new, old, 5) == [
        (key, Subscription(hashed, instruction, "k", 0), 5) for key, instruction in expected
    ]


def test_rows_without_a_foreign_key_are_counted_in_inner_joins() -> None:
    """If this fails, lost rows do not show in dropped-records-total."""
    running = sending(False, reads_versions=True)
    running.change("k", "-1", None, 5)
    running.change("k", "x1", None, 5, is_latest=False)
    assert (running.dropped, running.out) == (2, [])
    assert sending(True).change("k", "-1", None, 5) != []


def test_a_row_needs_the_partition_of_its_input() -> None:
    """If this fails, an answer is sent to some partition, whose task does not know the row."""
    running = sending(True)
    running.opened.at(5)
    running.opened.task.metadata = None
    with pytest.raises(StreamsError, match="outside an input record"):
        running.processor.process(Record("k", Change("x1", None), 5))


def subscriptions() -> Store:
    return rows_of(
        "kept",
        key_serde=BYTES,
        value_serde=SubscriptionSerde(STRING, "sent", "kept"),
        options={"logs_headers": True},
    )


def asked(instruction: Instruction, partition: int = 3) -> Subscription:
    return Subscription(bytes(16), instruction, "k", partition)


def test_subscriptions_are_kept_by_both_keys() -> None:
    """If this fails, a change of a right row reaches rows that do not refer to it, or misses some that do."""
    running = Running(SubscriptionReceive("kept", "sent", STRING, STRING), subscriptions())
    headers = (("h", b"1"),)
    new = asked(ANSWER_IF_FOUND)
    assert running.put("x", new, 5, headers) == [
        (CombinedKey("x", "k"), Change(ValueAndTimestamp(new, 5), None), 5),
    ]
    assert [key for key, _ in running.opened.store.entries()] == [b"\x00\x00\x00\x01xk"]
    # Kafka writes the headers of a subscription to its changelog.
    assert running.opened.logged_headers == [headers]
    gone = asked(DELETE)
    assert running.put("x", gone, 6) == [
        (CombinedKey("x", "k"), Change(ValueAndTimestamp(gone, 6), ValueAndTimestamp(new, 5)), 6)
    ]
    assert list(running.opened.store.entries()) == []


def test_a_subscription_to_nothing_is_only_answered() -> None:
    """If this fails, a left join lacks rows without a foreign key."""
    running = Running(SubscriptionReceive("kept", "sent", STRING, STRING), subscriptions())
    new = asked(ANSWER_ALWAYS)
    assert running.put(None, new, 5) == [(CombinedKey(None, "k"), Change(ValueAndTimestamp(new, 5), None), 5)]
    assert running.put(None, asked(DELETE), 5) == []
    assert running.dropped == 1
    assert list(running.opened.store.entries()) == []


ANSWERS: list[tuple[Instruction, Any, bool, tuple[Any, int] | None]] = [
    (DELETE, "x", True, None),
    (DELETE_AND_ANSWER, "x", True, (None, 9)),
    (DELETE_AND_ANSWER, "x", False, (None, 5)),
    (ANSWER_ALWAYS, "x", True, ("row", 9)),
    (ANSWER_ALWAYS, "x", False, (None, 5)),
    (ANSWER_ALWAYS, None, True, (None, 5)),
    (ANSWER_IF_FOUND, "x", True, ("row", 9)),
    (ANSWER_IF_FOUND, "x", False, None),
]


@pytest.mark.parametrize(("instruction", "key", "has_row", "expected"), ANSWERS)
def test_a_subscription_is_answered_with_the_row_of_now(
    instruction: Instruction, key: Any, has_row: bool, expected: tuple[Any, int] | None
) -> None:
    """If this fails, a result is missing, or is not deleted."""
    running = Running(SubscriptionJoin(StoreGetter("right")), rows_of("right"))
    if has_row:
        running.opened.at(9)
        running.opened.store.put("x", ValueAndTimestamp("row", 9))
    found = running.change(CombinedKey(key, "k"), ValueAndTimestamp(asked(instruction), 5), None, 5)
    assert found == ([] if expected is None else [("k", Response(bytes(16), expected[0], 3), expected[1])])


def test_a_change_of_a_right_row_answers_all_of_its_subscriptions() -> None:
    """If this fails, results keep an old row of the right table."""
    running = Running(ForeignTableJoin("kept", "sent", STRING, STRING, reads_versions=True), subscriptions())
    running.opened.at(1)
    # Keys that begin with the same bytes are other keys.
    for data in (b"\x00\x00\x00\x01xk", b"\x00\x00\x00\x01xl", b"\x00\x00\x00\x02xxk", b"\x00\x00\x00\x01yk"):
        running.opened.store.put(data, ValueAndTimestamp(asked(ANSWER_IF_FOUND), 1))
    answer = Response(bytes(16), "row", 3)
    assert running.change("x", "row", None, 5) == [("k", answer, 5), ("l", answer, 5)]
    assert running.change("z", "row", None, 5) == []
    assert running.change("x", "row", None, 5, is_latest=False) == running.change(None, "row", None, 5) == []
    assert running.dropped == 2


JOINED: list[tuple[bool, Any, Response, Any]] = [
    (False, "x1", Response(hash128(b"x1"), "row"), "x1+row"),
    (False, "x1", Response(hash128(b"x1"), None), None),
    (True, "x1", Response(hash128(b"x1"), None), "x1+None"),
    (True, None, Response(None, None), None),
    (False, None, Response(None, "row"), "None+row"),
]


@pytest.mark.parametrize(("is_left", "row", "response", "expected"), JOINED)
def test_an_answer_is_joined_with_the_row_that_asked(
    is_left: bool, row: Any, response: Response, expected: Any
) -> None:
    """If this fails, the join has other rows than in Kafka Streams."""
    assert joining(is_left, row).put("k", response, 5) == [("k", expected, 5)]


def joining(is_left: bool, row: Any) -> Running:
    joiner = function(lambda left, right: f"{left}+{right}")
    running = Running(ResponseJoin(StoreGetter("left"), joiner, is_left, "sent", STRING), rows_of("left"))
    if row is not None:
        running.opened.at(1)
        running.opened.store.put("k", ValueAndTimestamp(row, 1))
    return running


@pytest.mark.parametrize(("row", "hashed"), [("x2", hash128(b"x1")), (None, hash128(b"x1")), ("x2", None)])
def test_an_answer_to_an_older_row_is_dropped(row: Any, hashed: bytes | None) -> None:
    """If this fails, an answer that was overtaken by a change brings an old result back."""
    running = joining(True, row)
    assert running.put("k", Response(hashed, "row"), 5) == []
    assert running.dropped == 1


def test_a_join_without_serdes_is_refused() -> None:
    """If this fails, the application fails at its first row."""
    with pytest.raises(StreamsError, match="no serde of the right keys"):
        Running(SubscriptionSend(FIRST, False, True, "sent"))
