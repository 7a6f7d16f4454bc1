"""Invalid options are refused, with the allowed values."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from spark_analytics.segments import options, plan
from spark_analytics.segments.errors import SegmentsError
from tests.spark_analytics.segments.logs import Log, records

BASE = {"path": "/a", "topic": "t"}


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"topics": "t"}, "unknown option 'topics'; allowed are path, topic, includeHeaders"),
        ({"isolation": "serializable"}, "read_uncommitted and read_committed"),
        ({"onDamage": "ignore"}, "stop and skip"),
        ({"includeHeaders": "yes"}, "true and false"),
        ({"startingOffset": "-1"}, "'-1'; a whole number from 0 on"),
        ({"endingTimestamp": "2026-01-01"}, "'2026-01-01'; a whole number"),
        ({"rangeBytes": "0"}, "a whole number from 1 on"),
        ({"maxOffsetsPerTrigger": "0"}, "a whole number from 1 on"),
        ({"endingOffset": str(2**63)}, "a whole number"),
        ({"startingOffset": "7", "endingOffset": "6"}, "startingOffset 7 is after endingOffset 6"),
        ({"startingTimestamp": "7", "endingTimestamp": "6"}, "startingTimestamp 7 is after"),
        ({"path": " , "}, "'path' is missing: it names one or more log directories"),
        ({"topic": ""}, "'topic' is missing: it names one or more topics"),
    ],
)
def test_bad_options_are_refused(given: dict[str, str], text: str) -> None:
    """If this fails, an option without effect, or with another effect than intended, is accepted."""
    with pytest.raises(SegmentsError) as caught:
        options.parse({**BASE, **given})
    assert text in str(caught.value)


@pytest.mark.parametrize("given", [{"onDamage": "skip"}, {"path_": "x"}, {"topic": "x"}, {"nothing": None}])
def test_bad_bounds_of_the_function_are_refused(given: dict[str, Any]) -> None:
    """If this fails, a misspelt argument of `read` is ignored."""
    with pytest.raises((SegmentsError, TypeError), match=r"unknown option|multiple values"):
        options.as_text(["/a"], ["t"], **given)


def test_options_have_any_case_and_lists() -> None:
    """If this fails, options in lower case, as Spark passes them, are not recognized."""
    found = options.parse({"path": "/a, /b", "topic": "t,u,t", "startingtimestamp": "5", "INCLUDEHEADERS": "True"})
    assert (found.path, found.topic, found.starting_timestamp, found.include_headers) == (
        ("/a", "/b"),
        ("t", "u"),
        5,
        True,
    )
    assert found.isolation == "read_uncommitted"


def test_all_options_are_documented() -> None:
    """If this fails, a user has to read the code to find an option."""
    text = (Path(__file__).resolve().parents[3] / "docs" / "analytics.md").read_text()
    rows = "\n".join(line for line in text.splitlines() if line.startswith("| `"))
    assert [name for name in options.NAMES.values() if f"`{name}`" not in rows] == []


def test_topics_and_directories_that_are_not_there_are_named(tmp_path: Path) -> None:
    """If this fails, a misspelt topic or directory reads as empty."""
    Log(tmp_path, "orders").append(records(1))
    (tmp_path / "old-0.0123456789abcdef0123456789abcdef-delete").mkdir()
    with pytest.raises(SegmentsError, match=r"topic order is not in .*; there is orders$"):
        plan.folders(options.parse({"path": str(tmp_path), "topic": "orders,order"}))
    with pytest.raises(SegmentsError, match="nowhere cannot be read: No such file"):
        plan.folders(options.parse({"path": f"{tmp_path}/nowhere", "topic": "orders"}))


def test_the_same_partition_in_two_directories_is_refused(tmp_path: Path) -> None:
    """If this fails, the directories of two replicas give every record twice."""
    for name in ("a", "b"):
        Log(tmp_path / name).append(records(1))
    with pytest.raises(SegmentsError, match="are the same partition"):
        plan.folders(options.parse({"path": f"{tmp_path}/a,{tmp_path}/b", "topic": "t"}))


def test_a_damaged_checkpoint_is_named(tmp_path: Path) -> None:
    """If this fails, a damaged checkpoint counts as missing, and uncommitted records are read."""
    Log(tmp_path).append(records(1))
    (tmp_path / "replication-offset-checkpoint").write_text("0\n5\nt 0 1\n")
    with pytest.raises(SegmentsError, match="replication-offset-checkpoint: has 1 entries"):
        plan.folders(options.parse({"path": str(tmp_path), "topic": "t"}))
