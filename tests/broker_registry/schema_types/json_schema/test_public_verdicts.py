"""The public verdicts of Confluent's registry on changes of JSON schemas, read from a repository outside of this."""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import Any

import pytest

from broker_registry.schema_types.base import ParseSettings, Policy
from broker_registry.schema_types.json_schema import parse
from tests.broker_registry.schema_types.confluent_classes import confluent_text, needs_confluent

FOLDER = "HEAD:json-schema-provider/src/test/resources"
FILES = {
    "diff-schema-examples.json": 104,
    "diff-combined-schema-examples.json": 28,
    "diff-schema-examples-2020-12.json": 113,
    "diff-combined-schema-examples-2020-12.json": 18,
}
# A comma before a bracket, which the parser of these files allows.
_TRAILING = re.compile(r",(\s*[}\]])")


@needs_confluent
@pytest.mark.parametrize("name", FILES)
def test_the_public_verdicts_of_confluents_registry(name: str) -> None:
    """263 pairs of schemas: the same verdict, and the same differences of those that break readers."""
    rows: list[dict[str, Any]] = json.loads(_TRAILING.sub(r"\1", confluent_text("show", f"{FOLDER}/{name}")))
    assert len(rows) == FILES[name]
    for row in rows:
        old, new = (parse(json.dumps(row[side]), (), ParseSettings()) for side in ("original_schema", "update_schema"))
        found = [each for each in new.differences(old) if Policy.STRICT in each.breaks]
        assert (not found) == row["compatible"], row["description"]
        if found:
            missing = Counter(f"{each.kind} {each.path}" for each in found) - Counter(row["changes"])
            assert not missing, (row["description"], missing)
