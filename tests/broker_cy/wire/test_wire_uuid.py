"""The ids in decoded messages, which take the place of uuid.UUID."""

from __future__ import annotations

import gc
import pickle
import random
import weakref
from typing import Any
from uuid import UUID

import pytest

from broker_cy.core.errors import WireError
from broker_cy.wire import codec, messages

VALUES = [1, 2, (1 << 64) - 1, 1 << 64, (1 << 64) + 1, 1 << 127, (1 << 128) - 1]
Elements = messages.ConsumerGroupCurrentMemberAssignmentValue.TopicPartitions


def decoded(value: int) -> UUID:
    """The id as it comes from the wire."""
    record = messages.TopicRecord(name="t", topic_id=UUID(int=value))
    return codec.decode(messages.TopicRecord, 0, codec.encode(record, 0)).topic_id


@pytest.mark.parametrize("value", VALUES)
def test_it_equals_another_id_of_its_value(value: int) -> None:
    """If this fails, an id of a request is not found in a table whose keys have another source."""
    found, other = decoded(value), UUID(int=value)
    assert isinstance(found, UUID)
    assert type(found) is not UUID
    assert (found.int, found.bytes, found.is_safe) == (other.int, other.bytes, other.is_safe)
    assert found == other == found == decoded(value)
    assert hash(found) == hash(other)
    assert {found: "a"}[other] == {other: "a"}[found] == "a"
    assert (str(found), repr(found), f"{found}") == (str(other), repr(other), f"{other}")


def test_it_has_the_order_of_uuids() -> None:
    """If this fails, records of groups list their topics in another order on each node."""
    mixed = [decoded(value) if number % 2 else UUID(int=value) for number, value in enumerate(VALUES)]
    random.Random(1).shuffle(mixed)
    assert [each.int for each in sorted(mixed)] == sorted(VALUES)
    low, high = decoded(1), decoded(2)
    assert low < high
    assert low <= high
    assert high > UUID(int=1)
    assert UUID(int=2) >= low
    assert low != high


@pytest.mark.parametrize("other", [1, "00000000-0000-0000-0000-000000000001", None, 1.0, object()])
def test_it_equals_nothing_else(other: object) -> None:
    """If this fails, a comparison with a value of another type fails, or finds them equal."""
    found = decoded(1)
    assert found != other
    assert not found == other  # noqa: SIM201
    with pytest.raises(TypeError):
        _ = found < other  # type: ignore[operator]


def test_it_is_a_value() -> None:
    """If this fails, an id can be changed, cannot pass to another process, or stays in memory."""
    found = decoded(7)
    with pytest.raises(TypeError):
        found.int = 8  # type: ignore[misc]
    assert pickle.loads(pickle.dumps(found)) == found
    reference = weakref.ref(found)
    del found
    assert reference() is None
    many = {decoded(value) for value in range(1, 20_000)}
    gc.collect()
    assert len(many) == 19_999
    assert UUID(int=5) in many


def test_elements_that_were_encoded_by_columns() -> None:
    """If this fails, the record of a member with many topics has other bytes than its structures."""
    draw = random.Random(1)
    values = [([0], [5]), ([0, 1], [5, 6]), ([], []), ([3], None)]
    ids = [UUID(int=draw.getrandbits(128)) for _ in range(200)]
    columns = [values[draw.choice([0, 0, 0, 1, 2, 3])] for _ in ids]
    parts, epochs = [each[0] for each in columns], [each[1] for each in columns]
    by_columns, by_structures = (codec.EncodedElements(Elements, 0) for _ in range(2))
    by_columns.add_columns(ids[:150], parts[:150], epochs[:150])
    by_columns.add_columns(ids[150:], parts[150:], epochs[150:])
    by_columns.add_columns([], [], [])
    by_structures.add(codec.structures(Elements, ids, parts, epochs))
    assert by_columns.count == by_structures.count == 200
    parts_of: list[Any] = [by_columns, by_structures]
    first, second = (
        codec.encode(messages.ConsumerGroupCurrentMemberAssignmentValue(assigned_partitions=each), 0)
        for each in parts_of
    )
    assert first == second
    with pytest.raises(ValueError, match="differ in length"):
        by_columns.add_columns(ids, parts, epochs[1:])
    with pytest.raises(WireError, match="does not begin with an id"):
        by_columns.add_columns(ids, parts)
    with pytest.raises(WireError, match="a str is expected"):
        codec.EncodedElements(messages.ConsumerProtocolAssignment.TopicPartition, 1).add_columns(ids, parts)
    with pytest.raises(WireError, match="does not begin with an id"):
        codec.EncodedElements(messages.ConsumerProtocolAssignment, 1).add_columns(ids[:1], [b""])
    with pytest.raises(WireError, match=r"partitions\[0\]: an integer is expected"):
        by_columns.add_columns(ids[:1], [["x"]], [[1]])


def test_elements_with_a_name_that_were_encoded_by_columns() -> None:
    """If this fails, a member of the classic protocol gets the partitions of another topic."""
    draw = random.Random(2)
    kind = messages.ConsumerProtocolAssignment
    values = [[0], [0, 1], [], [3]]
    names = ["x" * draw.randint(1, 300) for _ in range(200)]
    parts = [values[draw.choice([0, 0, 0, 1, 2, 3])] for _ in names]
    by_columns = codec.EncodedElements(kind.TopicPartition, 1)
    by_columns.add_columns(names, parts)
    structures: list[Any] = [by_columns, codec.structures(kind.TopicPartition, names, parts)]
    first, second = (codec.encode_versioned(kind(assigned_partitions=each), 1) for each in structures)
    assert first == second
