"""The tests of Avro's Python library, with our comparison and our parser in the place of its own.

The library is Apache-2.0; its wheel on PyPI has the tests.
"""

from __future__ import annotations

import importlib
import json
import sys
import unittest
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from broker_cy.launch.cache import made_once
from broker_cy.launch.processes import run
from broker_registry.schema_types.avro import diff, parse
from broker_registry.schema_types.base import Difference, InvalidSchema, ParseSettings

pytestmark = pytest.mark.full
LIBRARY = "avro==1.12.2"
INSTALL_S = 280.0
NEW = ParseSettings(is_new=True, validates=True)


@pytest.fixture(scope="module")
def library() -> Iterator[Path]:
    def make(directory: Path) -> None:
        pip = [sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--no-deps"]
        run([*pip, "--target", directory, LIBRARY], timeout_s=INSTALL_S)

    home = made_once("avro-python", make)
    sys.path.insert(0, str(home))
    yield home
    sys.path.remove(str(home))


class Checker:
    """Stands for ReaderWriterCompatibilityChecker."""

    def get_compatibility(self, reader: Any, writer: Any) -> Any:
        compatibility = importlib.import_module("avro.compatibility")
        found = diff.differences(*(parse(str(each), (), ParseSettings()).schema for each in (reader, writer)))
        kinds = compatibility.SchemaCompatibilityType
        return compatibility.SchemaCompatibilityResult(
            kinds.incompatible if found else kinds.compatible,
            messages={_detail(each) for each in found},
            locations={place for each in found for place in _places(each)},
        )


def _detail(each: Difference) -> str:
    """Return the detail of a difference as the library writes it: types in lower case, symbols as a set."""
    detail = each.text.split("additionalInfo:'", 1)[1].removesuffix("'}")
    if each.kind == "TYPE_MISMATCH":
        return detail.lower()
    return str(set(detail[1:-1].split(", "))) if each.kind == "MISSING_ENUM_SYMBOLS" else detail


def _places(each: Difference) -> list[str]:
    """Return the path, and the one without the number of a writer's branch, which the library leaves out."""
    parent, _, last = each.path.rpartition("/")
    is_branch = each.kind == "TYPE_MISMATCH" and last.isdecimal()
    return [each.path, parent or "/"] if is_branch else [each.path]


def test_its_verdicts_on_compatibility(library: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, a change breaks readers that Avro's libraries call compatible, or the other way round."""
    tests = importlib.import_module("avro.test.test_compatibility")
    monkeypatch.setattr(tests, "ReaderWriterCompatibilityChecker", Checker)
    suite = unittest.defaultTestLoader.loadTestsFromModule(tests)
    result = unittest.TestResult()
    suite.run(result)
    assert result.testsRun >= 8
    wrong = [(str(test), text) for test, text in [*result.failures, *result.errors]]
    assert not wrong, wrong


def test_its_examples_of_schemas(library: Path) -> None:
    """If this fails, a schema of another language's library is refused, or a text that is none is taken."""
    tests = importlib.import_module("avro.test.test_schema")
    found = {}
    for example in tests.EXAMPLES:
        text = example.data if isinstance(example.data, str) else json.dumps(example.data)
        try:
            parse(text, (), NEW)
            is_taken = True
        except InvalidSchema:
            is_taken = False
        if is_taken != isinstance(example, tests.ValidTestSchema):
            found[text] = is_taken
    assert found == {}
    assert len(tests.EXAMPLES) > 50
