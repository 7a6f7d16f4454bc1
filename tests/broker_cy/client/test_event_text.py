"""One-line texts of the events of groups."""

from __future__ import annotations

import pytest

from broker_cy.client.event_text import line_of, topics_of
from broker_cy.console.columns.rebalances import KEPT, LONGEST_STALL, MOVED
from broker_cy.metrics.events import GroupConverted, GroupEpoch, Rebalance, Stamped, Trigger


def test_epochs_and_conversions_of_groups_are_told() -> None:
    """If this fails, the events of groups of the newer types are empty lines."""
    trigger = Trigger("session_timeout", "m-1", None, "worker-1", "10.0.0.1")
    assert line_of(GroupEpoch("g", "consumer", 7, trigger, 2)) == (
        "epoch 7 of a consumer group with 2 members: session timeout of worker-1"
    )
    assert line_of(GroupEpoch("g", "share", 8, Trigger("metadata"), 1)) == (
        "epoch 8 of a share group with 1 member: metadata"
    )
    changed = GroupEpoch("g", "share", 9, Trigger("metadata", topics=["a", "b", "c", "d", "e"]), 1)
    assert line_of(changed) == "epoch 9 of a share group with 1 member: metadata of a, b, c, d and 1 more"
    assert topics_of(changed) == {"a", "b", "c", "d", "e"}
    assert line_of(GroupConverted("g", "classic", "consumer", 3, 2)) == (
        "from classic to consumer group, epoch 3: 2 members of the classic protocol"
    )
    triggers = [Trigger("share_partitions"), Trigger("join"), Trigger("metadata", topics=["t"])]
    begun = Rebalance("g", 9, group_type="share", triggers=triggers)
    assert topics_of(begun) == {"t"}
    assert line_of(begun).startswith("epoch 9 (share partitions, join, metadata):")
    assert line_of(Rebalance("g", 9, group_type="consumer")) == (
        "epoch 9 (unknown reason): 0 -> 0 members in 0 ms, 0 partitions moved, stall 0 ms"
    )


@pytest.mark.parametrize("group_type", ["share", "streams"])
def test_moves_that_are_not_observed_are_not_counted(group_type: str) -> None:
    """If this fails, operators read that a rebalance moved nothing, although its moves are not known."""
    event = Rebalance("g", 9, group_type=group_type, members_after=2)
    assert line_of(event) == "epoch 9 (unknown reason): 0 -> 2 members in 0 ms"
    row = Stamped(1_000, 1, event)
    assert [column.value(row) for column in (MOVED, KEPT, LONGEST_STALL)] == [None, None, None]
