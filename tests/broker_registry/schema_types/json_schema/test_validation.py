"""Values of records by JSON schemas: the public suite of JSON Schema, drafts as Confluent's registry knows them, and no
access to files and networks.

The suite (MIT) is in the source archive of the library jsonschema on PyPI.
"""

from __future__ import annotations

import json
import sys
import tarfile
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from broker_cy.launch.cache import made_once
from broker_cy.launch.processes import run
from broker_registry.schema_types.base import InvalidSchema, ParseSettings, Resolved
from broker_registry.schema_types.json_schema import parse
from broker_registry.schema_types.json_schema.schema import JsonSchema

LIBRARY = "jsonschema==4.26.0"
DOWNLOAD_S = 280.0
DRAFTS = {
    "draft4": "http://json-schema.org/draft-04/schema#",
    "draft6": "http://json-schema.org/draft-06/schema#",
    "draft7": "http://json-schema.org/draft-07/schema#",
    "draft2019-09": "https://json-schema.org/draft/2019-09/schema",
    "draft2020-12": "https://json-schema.org/draft/2020-12/schema",
}
VALIDATES = ParseSettings(is_new=True, validates=True)


@pytest.fixture(scope="module")
def suite() -> Path:
    def make(directory: Path) -> None:
        pip = [sys.executable, "-m", "pip", "download", "-q", "--disable-pip-version-check", "--no-deps"]
        run([*pip, "--no-binary", "jsonschema", "-d", directory, LIBRARY], timeout_s=DOWNLOAD_S)
        (archive,) = directory.glob("*.tar.gz")
        with tarfile.open(archive) as found:
            found.extractall(directory, filter="data")

    (home,) = made_once("jsonschema-sources", make).glob("jsonschema-*/json/tests")
    return home


def read(value: Any, *references: Resolved) -> JsonSchema | None:
    try:
        return parse(json.dumps(value), references, VALIDATES)
    except InvalidSchema:
        return None


@pytest.mark.full
@pytest.mark.parametrize("draft", DRAFTS)
def test_the_public_suite(suite: Path, draft: str) -> None:
    """If this fails, records are shown as invalid that are not, or the other way round; or a schema is refused."""
    counts: Counter[str] = Counter()
    for file in sorted((suite / draft).glob("*.json")):
        # Schemas with a meta-schema of their own are of draft 7 here.
        for group in json.loads(file.read_text()) if file.name != "vocabulary.json" else ():
            schema = group["schema"]
            if isinstance(schema, dict):
                schema = {"$schema": DRAFTS[draft], **schema}
            found = read(schema)
            if found is None:
                counts["refused"] += 1
                assert _leads_outside(schema), (file.name, group["description"])
                continue
            assert not any(each.breaks for each in found.differences(found)), (file.name, group["description"])
            for each in group["tests"]:
                counts["values"] += 1
                problem = _problem(found, each["data"])
                if "the library cannot use the schema" in problem:
                    assert _leads_outside(schema), (file.name, group["description"], problem)
                else:
                    assert (not problem) == each["valid"], (file.name, group["description"], each["description"])
    assert counts["values"] > 500
    assert counts["refused"] < 60


def _problem(schema: JsonSchema, value: Any) -> str:
    try:
        schema.check(value)
    except ValueError as error:
        return str(error)
    return ""


def _leads_outside(schema: Any) -> bool:
    """Return whether a schema names another document, which is not in the registry."""
    return "ref" in json.dumps(schema).lower() or "$schema" in json.dumps(schema)


@pytest.mark.parametrize(
    ("schema", "value", "is_valid"),
    [
        # Without a draft, or with an unknown one, a schema is of draft 7: a list of items is for the first ones.
        ({"items": [{"type": "integer"}]}, ["x"], False),
        ({"items": [{"type": "integer"}]}, [1, "x"], True),
        ({"$schema": "http://example.com/own", "items": [{"type": "integer"}]}, ["x"], False),
        ({"$schema": "http://json-schema.org/draft-04/schema#", "exclusiveMinimum": True, "minimum": 1}, 1, False),
        ({"$schema": "http://json-schema.org/schema#", "exclusiveMinimum": True, "minimum": 1}, 1, False),
        ({"$schema": DRAFTS["draft2020-12"], "prefixItems": [{"type": "integer"}]}, ["x"], False),
        ({"prefixItems": [{"type": "integer"}]}, ["x"], True),
        (True, 1, True),
        (False, 1, False),
    ],
)
def test_the_draft_of_a_schema_decides(schema: Any, value: Any, is_valid: bool) -> None:
    """If this fails, records that Confluent's clients wrote are shown as invalid."""
    found = read(schema)
    assert found is not None
    if is_valid:
        found.check(value)
        return
    with pytest.raises(ValueError, match=r"^/"):
        found.check(value)


@pytest.mark.parametrize("form", ["file", "http"])
def test_a_schema_reads_no_file_and_no_address(tmp_path: Path, form: str) -> None:
    """If this fails, a client that may register a schema reads files of each host that shows records, or reaches its
    network.
    """
    secret = tmp_path / "secret.json"
    secret.write_text('{"const": "secret"}')
    address = secret.as_uri() if form == "file" else "http://127.0.0.1:9/x.json"
    with pytest.raises(InvalidSchema, match="nothing is fetched"):
        parse(json.dumps({"$ref": address}), (), VALIDATES)
    # Those that were stored before, or imported, are not checked.
    stored = parse(json.dumps({"$ref": address}), (), ParseSettings())
    with pytest.raises(ValueError, match="Retrieval is disabled"):
        stored.check("secret")


def test_references_of_the_registry_are_followed() -> None:
    """If this fails, records of schemas with references cannot be shown."""
    found = read(
        {"$ref": "base.json#/definitions/n"}, Resolved("base.json", '{"definitions":{"n":{"type":"integer"}}}')
    )
    assert found is not None
    found.check(1)
    with pytest.raises(ValueError, match="is not of type"):
        found.check("x")
