"""Files that need no reference: schemas that import them are registered as they are."""

from __future__ import annotations

import pytest

from broker_registry.schema_types.base import ParseSettings
from broker_registry.schema_types.protobuf import ast, bundled
from tests.broker_registry.schema_types.protobuf.schemas import proto3

NEW = ParseSettings(is_new=True)


@pytest.mark.parametrize("path", sorted(bundled.files()))
def test_each_message_of_a_bundled_file_may_be_the_type_of_a_field(path: str) -> None:
    file = bundled.files()[path]
    for index, each in enumerate(file.types):
        found = proto3(f'import "{path}"; message A {{ {file.package}.{each.name} a = {index + 1}; }}', settings=NEW)
        payload = found.encode({})
        assert found.decode(payload) == ({} if isinstance(each, ast.Message) else found.decode(payload))


def test_the_files_are_those_of_confluents_registry() -> None:
    """A schema that imports another one needs a reference there, and has one."""
    by_folder = {
        folder: sum(path.startswith(folder) for path in bundled.files())
        for folder in ("google/protobuf/", "google/type/", "confluent/")
    }
    assert by_folder == {"google/protobuf/": 11, "google/type/": 16, "confluent/": 3}


def test_a_reference_replaces_a_bundled_file_of_its_name() -> None:
    """A company may have its own google/type/date.proto."""
    path = "google/type/date.proto"
    own = (path, 'syntax = "proto3"; package google.type; message Date { string text = 1; }')
    text = f'import "{path}"; message A {{ google.type.Date date = 1; }}'
    value = {"date": {"text": "today"}}
    found = proto3(text, own, settings=NEW)
    assert found.decode(found.encode(value)) == value
    with pytest.raises(ValueError, match="the value is no A"):
        proto3(text).encode(value)
