"""Records of the progress topic."""

from __future__ import annotations

import json

import pytest

from broker_streams.hosts.spark.progress import Open, Progress

MADE = Progress("app-0", 7, 1_000, 3, (("in", 0, 12), ("in", 1, 5)), {"out": 3}, (Open("app-0_0", 4, 2),))


def test_a_record_of_a_batch_is_read_as_it_was_written() -> None:
    """If this fails, a driver ends other transactions than those that the last one has decided to commit."""
    assert Progress.of(MADE.value()) == MADE


def test_a_damaged_record_is_no_decision() -> None:
    """If this fails, a driver commits what a damaged record names."""
    changed = {**json.loads(MADE.value()), "batch": 8}
    with pytest.raises(ValueError, match="the record of batch 8 of app-0 is damaged"):
        Progress.of(json.dumps(changed).encode())
    for data in (b"", b"[]", b"{}", b"\xff"):
        with pytest.raises(ValueError, match="has a record that is none of a batch"):
            Progress.of(data)
