"""The answers of Kafka Streams that the streams tests compare with: they belong to the specs of today, and Kafka still
gives them. The oracle's functions have the same results in Java and in Python.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.broker_streams.oracle import answers
from tests.broker_streams.oracle.families.maker import TYPES, Maker
from tests.broker_streams.oracle.functions import evaluate
from tests.broker_streams.oracle.java import answers as ask
from tests.broker_streams.oracle.java import kafka_streams
from tests.support import needs, recorded
from tests.support.java_oracle import JavaOracle

CALLS = 400
KAFKAS_TESTS = 1110
VALUES = (None, 0, -7, 300, 1 << 40, "", "a", "apple1", "\u00fc9", "null")


@pytest.fixture(scope="module")
def java() -> Iterator[JavaOracle]:
    with kafka_streams() as running:
        yield running


def function_calls() -> list[Any]:
    """Random expressions of all kinds, with values of all types."""
    maker = Maker("functions")
    variables = ["key", "value", "other", 5, ["text", "t"], None]
    found = []
    for number in range(CALLS):
        expression = maker.expression(TYPES[number % 2], variables, 0.4)
        if number % 3 == 0:
            expression = ["if", maker.condition(variables), expression, ["concat", expression, ["text", "!"]]]
        if number % 7 == 0:
            expression = ["if", ["equal", "key", "other"], 1, expression]
        found.append([expression, *(random.Random(f"{number} {at}").choice(VALUES) for at in range(3))])
    return found


@pytest.mark.parametrize("name", answers.SETS)
def test_answers_belong_to_the_specs(name: str) -> None:
    """If this fails, the answers are of other topologies, and nothing shows that ours behave as Kafka's."""
    found = answers.recorded_answers(name).values()
    assert sum(len(each) for answer in found for each in answer.get("records", ())) > len(found)
    assert sum("error" in each for each in found) <= len(found) // 3


def test_kafkas_own_tests_have_sets_of_ours() -> None:
    """The table names a set for each class of Kafka's tests on its driver, or the reason why none is. If this fails, it
    names a set that does not exist, or a set of scenarios that no class stands for.
    """
    lines = (Path(__file__).parent / "kafkas_tests.tsv").read_text().splitlines()
    rows = [[*line.split("\t"), ""][:5] for line in lines if not line.startswith("#")]
    assert sum(int(count) for _, count, *_ in rows) == KAFKAS_TESTS
    named = [name for _, _, _, sets, _ in rows for name in sets.split()]
    assert set(named) == set(answers.SETS)
    assert all(sets or note for _, _, _, sets, note in rows)


def test_functions_are_equal() -> None:
    """If this fails, a difference of the oracle's own functions hides or feigns differences of topologies."""
    values = [evaluate(*each) for each in function_calls()]
    assert values == recorded.of_kafka("streams_functions")


@needs.java
@pytest.mark.full
def test_java_gives_the_functions(java: JavaOracle) -> None:
    """If this fails, the recorded results of functions are not those of the oracle."""
    recorded.check("streams_functions", java.ask({"op": "functions", "calls": function_calls()}))


@needs.java
@pytest.mark.full
@pytest.mark.parametrize("name", answers.SETS)
def test_kafka_answers_as_recorded(java: JavaOracle, name: str) -> None:
    """If this fails, the recording is not of Kafka Streams 4.3.1, and our equal results are wrong."""
    found = ask(java, list(answers.specs(name).values()))
    recorded.check(answers.file_of(name), answers.form(name, found))
