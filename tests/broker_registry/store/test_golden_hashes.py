"""The hashes that Confluent's registry has for its public examples, read from a repository outside of this."""

from __future__ import annotations

import json
from itertools import product

from broker_registry.rules import Metadata, RuleSet
from broker_registry.schema_types.base import Kind, Reference
from broker_registry.store.values import SchemaContent, SchemaValue
from tests.broker_registry.schema_types.confluent_classes import confluent_text, needs_confluent

FILE = "HEAD:core/src/test/resources/schema-md5-golden-data.json"


@needs_confluent
def test_the_public_hashes_of_confluents_registry() -> None:
    """If this fails, a schema of a topic that Confluent's registry wrote is not found, and gets a second id."""
    data = json.loads(confluent_text("show", FILE))
    references = tuple(Reference(each["name"], each["subject"], each["version"]) for each in data["references"])
    metadata, rules = Metadata.parse(data["metadata"]), RuleSet.parse(data["rules"])
    for kind, flags in product(Kind, product((False, True), repeat=3)):
        content = SchemaContent(
            kind.value,
            data["schemas"][kind.value.lower()],
            references if flags[0] else (),
            metadata if flags[1] else None,
            rules if flags[2] else None,
        )
        expected = data["expectedHashes"][kind.value]["".join(str(int(flag)) for flag in flags)]
        assert SchemaValue("a", 1, 1, content, md5=content.md5()).guid == expected, (kind, flags)
