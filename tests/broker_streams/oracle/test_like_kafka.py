"""Topologies of our DSL give what Kafka Streams gives: records in their order, changelogs, rows of stores, texts.

Kafka's answers to the scenarios and to some random topologies are recorded. The tests marked `full` make more of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import pytest

from tests.broker_streams.oracle import answers
from tests.broker_streams.oracle.compare import differences
from tests.broker_streams.oracle.families.all import FAMILIES, spec_of
from tests.broker_streams.oracle.java import answers as ask
from tests.broker_streams.oracle.java import kafka_streams
from tests.broker_streams.oracle.ours import answer_of
from tests.broker_streams.oracle.spec import Answer, Spec
from tests.support import needs
from tests.support.java_oracle import JavaOracle

SEEDS_FULL: Final = 60
"""Random topologies of each family in the full tier. The command of this folder makes any number of them."""


@pytest.fixture(scope="module")
def java() -> Iterator[JavaOracle]:
    with kafka_streams() as running:
        yield running


def differing(specs: Mapping[str, Spec], theirs: Mapping[str, Answer]) -> list[str]:
    return [
        f"{title}: {each}"
        for title, spec in specs.items()
        for each in differences(spec, theirs[title], answer_of(spec))
    ]


@pytest.mark.parametrize("name", answers.SETS)
def test_recorded_topologies(name: str) -> None:
    """If this fails, an application gives other results than on Kafka Streams, or cannot read its changelogs."""
    assert differing(answers.specs(name), answers.recorded_answers(name)) == []


@needs.java
@pytest.mark.full
@pytest.mark.parametrize("family", FAMILIES)
def test_random_topologies(java: JavaOracle, family: str) -> None:
    """If this fails, some topology of the family gives other results than on Kafka Streams."""
    specs = {
        f"{family} {seed}": spec_of(family, seed) for seed in range(answers.RECORDED, answers.RECORDED + SEEDS_FULL)
    }
    theirs = dict(zip(specs, ask(java, list(specs.values())), strict=True))
    assert differing(specs, theirs) == []
