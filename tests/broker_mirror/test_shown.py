"""The tables of `broker-mirror status` and `broker-mirror lag`."""

from __future__ import annotations

import pytest

from broker_cy.client.mirror_status import FlowStatus, MirrorStatus, PartitionState
from broker_cy.console.columns import mirrors
from broker_mirror.shown import print_lags, print_status
from broker_mirror.status import PartitionLag


def test_lags_are_shown_as_in_the_consoles(capsys: pytest.CaptureFixture[str]) -> None:
    """If this fails, a user cannot compare the offsets of the command with those of the consoles."""
    print_lags([PartitionLag("A->B", "orders", 3, 1_234_567, None, None), PartitionLag("A->B", "orders", 4, 0, 9, 9)])
    head, first, second = capsys.readouterr().out.splitlines()
    columns = (mirrors.FLOW, mirrors.TOPIC, mirrors.PARTITION, mirrors.POSITION, mirrors.END, mirrors.PARTITION_LAG)
    assert head.split("  ")[0] == "FLOW"
    assert all(column.title.upper() in head for column in columns)
    assert first.split() == ["A->B", "orders", "3", "1,234,567", "-", "-"]
    assert second.split() == ["A->B", "orders", "4", "0", "9", "9"]


def test_the_status_names_problems_and_loops(capsys: pytest.CaptureFixture[str]) -> None:
    """If this fails, an operator does not see why a topic is not copied."""
    part = PartitionState("orders", 0, "A.orders", 5, 7, 5, 2, 1_500, 5, 2_048, "it is too large", True)
    loops = tuple(f"B.{number}" for number in range(7))
    flow = FlowStatus(
        "A",
        "B",
        "copy",
        "running",
        "1 of 2",
        True,
        (part,),
        {"sync.topic.acls": "denied"},
        loops,
        {"g": 1},
        12.0,
        2_048.0,
    )
    print_status(MirrorStatus("1", (flow,)))
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].split("  ")[0] == "A->B"
    assert "1 of 2" in lines[1]
    assert "1.5 s" in lines[1]
    assert "2.0 KiB" in lines[1]
    assert lines[2:4] == ["A->B, sync.topic.acls: denied", "A->B, orders-0: it is too large"]
    assert lines[4] == "A->B: 7 topics come from B, and are not copied back: B.0, B.1, B.2, B.3, B.4, ..."
