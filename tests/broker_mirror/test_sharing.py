"""Processes of one file divide the partitions."""

from __future__ import annotations

import pytest

from broker_cy.admin.metadata import TopicPartition
from broker_cy.client.group_member import Joined
from broker_cy.core.errors import WireError
from broker_mirror.merged import Pair
from broker_mirror.sharing import Share, ShareProtocol, member_settings

PARTITIONS = [TopicPartition(topic, partition) for topic in ("a", "b", "c") for partition in range(7)]


@pytest.mark.parametrize("count", [1, 2, 3, 5, 30])
def test_each_partition_has_one_process(count: int) -> None:
    """If this fails, a partition is copied twice, or not at all."""
    parts = [Share(number, count).of(PARTITIONS) for number in range(count)]
    assert sorted(each for part in parts for each in part) == PARTITIONS
    assert [Share(number, count).leads for number in range(count)] == [number == 0 for number in range(count)]


def test_the_partitions_of_a_topic_are_divided_evenly() -> None:
    """If this fails, one process copies a whole topic while others are idle."""
    assert sorted(len(Share(number, 3).of(PARTITIONS[:7])) for number in range(3)) == [2, 2, 3]


def test_members_are_numbered() -> None:
    """If this fails, two processes copy the same partitions."""
    protocol = ShareProtocol()
    found = protocol.assignments([Joined("m2", None, b""), Joined("m1", None, b"")])
    assert {name: protocol.parts(data) for name, data in found.items()} == {
        "m1": frozenset([Share(0, 2)]),
        "m2": frozenset([Share(1, 2)]),
    }
    assert member_settings(Pair("A", "B")).group_id == "broker-mirror-A-B"


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b"{}",
        b'{"number":1,"members":1}',
        b'{"number":0,"members":1001}',
        b'{"number":"0","members":1}',
        b"\xff",
    ],
)
def test_damaged_assignments_are_named(data: bytes) -> None:
    """If this fails, a damaged answer ends the mirror with a defect, or as the owner of partitions of others."""
    with pytest.raises(WireError, match="an assignment of a mirror has number and members"):
        ShareProtocol().parts(data)
