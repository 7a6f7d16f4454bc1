"""Differences between answers are found, and shown with the input that caused them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.broker_streams.oracle import answers
from tests.broker_streams.oracle.compare import differences

SPEC: dict[str, Any] = {"calls": [], "inputs": [{"topic": "in", "key": "k", "value": "v", "at": 5}]}
ONE: list[Any] = ["out", None, "6b", "76", 5, []]
LOG: list[Any] = ["app-s-changelog", 0, "6b", "0000000000000001", 5, []]


def answer(*records: Any, **other: Any) -> dict[str, Any]:
    return {"records": [list(records)], "dropped": 0, "stores": {"s": [["k", 1], ["l", 2]]}} | other


@pytest.mark.parametrize(
    ("ours", "words"),
    [
        (
            answer(LOG, ["out", None, "6b", "77", 5, []]),
            ["input 0", '"at": 5', "- out: 'k' = 'v' @5", "+ out: 'k' = 'w'"],
        ),
        (answer(ONE), ["- app-s-changelog: 'k' = 1 @5"]),
        (answer(LOG, ["out", None, "6b", "76", 6, []]), ["+ out: 'k' = 'v' @6"]),
        (answer(LOG, ["out", None, "6b", "76", 5, [["h", "01"]]]), ["[['h', '01']]"]),
        (answer(LOG, ONE, dropped=1), ["dropped records", "ours   1"]),
        (answer(LOG, ONE, stores={"s": [["k", 1]]}), ["store s"]),
        (answer(LOG, ONE, stores={}), ["names of stores"]),
        (answer(LOG, ONE, description="other"), ["description"]),
        (answer(LOG, ONE, error={"at": 0}), ["error"]),
    ],
)
def test_difference_is_shown(ours: dict[str, Any], words: list[str]) -> None:
    """If this fails, a wrong result passes as equal to Kafka's, or is shown without its cause."""
    (found,) = differences(SPEC, answer(LOG, ONE, description="text"), ours)
    assert [each for each in words if each not in found] == []


def test_orders_that_differ_rightly_are_equal() -> None:
    """If this fails, equal results are taken for wrong: a changelog may come after the record of another topic."""
    ours = answer(ONE, LOG, stores={"s": [["l", 2], ["k", 1]]})
    assert differences(SPEC, answer(LOG, ONE), ours) == []
    assert differences(SPEC, answer(LOG, ONE), ours, order=True) != []


def test_answer_equals_itself() -> None:
    """If this fails, all answers seem to differ."""
    specs = answers.specs("suppress")
    for title, each in answers.recorded_answers("suppress").items():
        assert differences(specs[title], each, each, order=True) == []


def test_faults_of_kafka_are_left_out() -> None:
    """If this fails, known faults of Kafka Streams fail the tests, or hide errors that are ours."""
    theirs = answer(error={"at": 0, "cause_message": "key cannot be null"})
    assert differences(SPEC, theirs, answer(ONE)) == []
    assert differences(SPEC, answer(error={"at": 0, "cause_message": "other"}), answer(ONE)) != []
    assert differences(SPEC, answer(ONE), theirs) != []
    assert differences(SPEC, theirs, answer(error={"at": "build"})) != []
