"""Texts, descriptors and differences are those of Confluent's own classes, for the corpus and for random schemas. With
BROKER_CY_TEST_RECORD=1 the answers for the corpus are recorded: test_canonical.py compares ours with them.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from typing import Any

import pytest

from broker_registry.schema_types.base import InvalidSchema
from tests.broker_registry.schema_types.confluent_classes import needs_confluent
from tests.broker_registry.schema_types.protobuf import corpus, malformed, oracles
from tests.broker_registry.schema_types.protobuf.random_schemas import pair
from tests.broker_registry.schema_types.protobuf.schemas import schema
from tests.support import needs
from tests.support.java_oracle import JavaOracle
from tests.support.tiers import by_tier

pytestmark = [
    pytest.mark.full,
    needs.java,
    needs_confluent,
]
MUTANTS, PAIRS = by_tier(300, 4_000), by_tier(100, 1_000)
RECORDS = os.environ.get("BROKER_CY_TEST_RECORD") == "1"
# Too many messages that name each other: ours does not repeat all differences (test_bounds.py).
REPEATED = {618}


@pytest.fixture(scope="module")
def confluent() -> Iterator[JavaOracle]:
    with oracles.confluent() as found:
        yield found


@pytest.mark.parametrize("name", corpus.NAMES)
def test_the_recorded_texts_are_confluents_current_ones(confluent: JavaOracle, name: str) -> None:
    answer = confluent.ask({"text": corpus.text_of(name)})
    for form in corpus.SUFFIXES:
        if RECORDS:
            corpus.record(name, form, answer[form])
        assert corpus.recorded(name, form) == answer[form]


def test_changed_texts_have_the_same_forms_or_errors(confluent: JavaOracle) -> None:
    """A schema that Confluent's registry accepts is accepted here, as the same text."""
    source = random.Random(36)
    count_read = 0
    for _ in range(MUTANTS):
        text = malformed.mutant(source)
        answer = confluent.ask({"text": text})
        try:
            found = schema(text)
        except InvalidSchema:
            assert "error" in answer, text
            continue
        count_read += 1
        assert found.canonical == answer.get("canonical"), text
        assert found.name == answer.get("name"), text
        assert found.formatted("ignore_extensions") == answer["ignore_extensions"], text
        try:
            assert found.normalized().canonical == answer.get("normalized"), text
        except InvalidSchema:
            assert "normalized_error" in answer, text
        if "serialized" in answer:
            # Ours has a form for some schemas that the library of Java refuses.
            assert found.formatted("serialized") == answer["serialized"], text
    assert count_read > MUTANTS // 50


@pytest.mark.parametrize("seed", range(PAIRS))
def test_random_changes_have_the_same_differences(confluent: JavaOracle, seed: int) -> None:
    """Kinds, paths, messages and their order."""
    old_library, new_library, old, new = pair(seed)
    answer = confluent.ask({**asked(new, new_library, 2), "writer": asked(old, old_library, 1)})
    reader, writer = schema(new, ("lib.proto", new_library)), schema(old, ("lib.proto", old_library))
    found = [(each.kind, each.path, each.text, not each.breaks) for each in reader.differences(writer)]
    expected = [(each["kind"], each["path"], each["text"], each["allowed"]) for each in answer["differences"]]
    if seed in REPEATED:
        found, expected = sorted(set(found)), sorted(set(expected))
    assert found == expected
    assert reader.canonical == answer["canonical"]


def asked(text: str, library: str, version: int) -> dict[str, Any]:
    return {
        "text": text,
        "references": [{"name": "lib.proto", "subject": "lib", "version": version}],
        "resolved": [{"name": "lib.proto", "text": library}],
    }
