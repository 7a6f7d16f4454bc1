"""JSON schemas are read, printed and compared as by Confluent's own classes."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from broker_registry.schema_types.base import InvalidSchema, ParseSettings, Policy
from broker_registry.schema_types.json_schema import parse
from broker_registry.schema_types.json_schema.schema import JsonSchema
from tests.broker_registry.schema_types.confluent_classes import needs_confluent
from tests.broker_registry.schema_types.json_schema import oracles
from tests.broker_registry.schema_types.json_schema.random_schemas import Schemas, nearly
from tests.support import needs
from tests.support.java_oracle import JavaOracle
from tests.support.tiers import by_tier

pytestmark = [pytest.mark.full, needs.java, needs_confluent]
SCHEMAS, TEXTS, PAIRS = by_tier(300, 4_000), by_tier(300, 4_000), by_tier(300, 4_000)
# Properties beside the type number, in an alternative of draft 2020-12: Confluent's classes do not compare them.
UNLIKE = {788}


@pytest.fixture(scope="module")
def confluent() -> Iterator[JavaOracle]:
    with oracles.confluent() as found:
        yield found


def ours(text: str) -> JsonSchema | None:
    try:
        return parse(text, (), ParseSettings(is_new=True, validates=True))
    except InvalidSchema:
        return None


def accepted_by(confluent: JavaOracle, text: str) -> tuple[bool, bool]:
    """Return whether we and Confluent's classes take a text. If both do, its forms must be the same."""
    answer = confluent.ask({"text": text})
    found = ours(text)
    if found is not None and "error" not in answer:
        assert found.canonical == answer["canonical"], text
        assert found.normalized().canonical == answer["normalized"], text
    return found is not None, "error" not in answer


def test_random_schemas_have_the_same_forms(confluent: JavaOracle) -> None:
    """If this fails, a schema has another id than in Confluent's registry, or only one of the two takes it."""
    verdicts: Counter[tuple[bool, bool]] = Counter()
    for seed in range(SCHEMAS):
        verdict = accepted_by(confluent, json.dumps(Schemas(seed).schema()))
        # A few schemas have a boolean in place of a schema, which draft 4 does not know: both refuse them.
        assert verdict[0] is verdict[1], seed
        verdicts[verdict] += 1
    assert verdicts[True, True] > SCHEMAS * 0.98, verdicts


def test_nearly_schemas_are_accepted_or_refused_alike(confluent: JavaOracle) -> None:
    """If this fails, the registry refuses what its clients register today, or takes what their readers refuse."""
    verdicts = Counter(accepted_by(confluent, nearly(seed)) for seed in range(TEXTS))
    # Ours does not look at the values of words that say nothing about their type.
    assert verdicts[True, False] <= TEXTS // 40, verdicts
    assert verdicts[False, True] == 0
    assert verdicts[True, True] > TEXTS // 10
    assert verdicts[False, False] > TEXTS // 10


def test_random_changes_have_the_same_differences(confluent: JavaOracle) -> None:
    """If this fails, a change that breaks consumers is registered, or one that does not is refused: kinds, places and
    their order, by both policies.
    """
    counts: Counter[str] = Counter()
    for seed in sorted(set(range(PAIRS)) - UNLIKE):
        schemas = Schemas(seed)
        old = schemas.schema()
        new = schemas.changed(old)
        reader, writer = json.dumps(new), json.dumps(old)
        answer: dict[str, Any] = confluent.ask({"text": reader, "writer": {"text": writer}})
        parsed = ours(reader), ours(writer)
        if parsed[0] is None or parsed[1] is None or "error" in answer:
            # Confluent's classes end with a NullPointerException for some pairs.
            continue
        differences = parsed[0].differences(parsed[1])
        for policy in Policy:
            found = [[each.kind, each.path] for each in differences if policy in each.breaks]
            assert found == answer[policy.value], (seed, policy, writer, reader)
            counts["breaking" if found else "allowed"] += 1
    assert min(counts["breaking"], counts["allowed"]) > PAIRS // 3
