"""Records of the command topic, as ksqlDB's servers write them too."""

from __future__ import annotations

import json

import pytest

from broker_sql.server.commands import Action, BadCommand, Command, CommandId, Type, parse_command, parse_id

ID = CommandId(Type.STREAM, "`ORDERS`", Action.CREATE)


def test_a_command_is_read_as_it_was_written() -> None:
    written = Command(ID, "CREATE STREAM ORDERS ...;", {"auto.offset.reset": "earliest", "n": None}, {"a": "b"}, 7)
    assert parse_command(written.key(), written.value(), 7) == written
    assert written.key() == b'"stream/`ORDERS`/create"'


def test_a_record_of_ksqldb_with_a_plan_is_its_statement() -> None:
    """If this fails, the command topic of an existing server does not open."""
    value = {
        "statement": "TERMINATE CSAS_A_1;",
        "streamsProperties": {},
        "originalProperties": {"ksql.service.id": "default_"},
        "plan": {"@type": "ksqlPlanV1", "steps": [{"unknown": True}]},
        "version": 18,
        "added": "later",
    }
    found = parse_command(b'"terminate/CSAS_A_1/execute"', json.dumps(value).encode(), 3)
    assert (found.id.type, found.id.entity, found.statement) == (Type.TERMINATE, "CSAS_A_1", "TERMINATE CSAS_A_1;")


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        (None, b"{}", "no key"),
        (b'"stream/A/create"', None, "no value"),
        (b'"stream/A/create"', b"{", "no JSON"),
        (b"5", b"{}", "a text is expected"),
        (b'"stream/A/create"', b"[]", "is a list; an object"),
        (b'"stream/A/create"', b"{}", "no statement"),
        (b'"stream/A/create"', b'{"statement":"x","version":99}', "at most 18 can be read"),
        (b'"stream/A/create"', b'{"statement":"x","streamsProperties":[]}', "streamsProperties is a list"),
        (b'"stream/A"', b'{"statement":"x"}', "type/entity/action is expected"),
        (b'"stream/A/paint"', b'{"statement":"x"}', "the actions"),
        (b'"river/A/create"', b'{"statement":"x"}', "the types"),
    ],
)
def test_other_records_say_what_is_wrong(key: bytes | None, value: bytes | None, reason: str) -> None:
    with pytest.raises(BadCommand, match=reason):
        parse_command(key, value, 0)


def test_names_with_slashes_stay_whole() -> None:
    assert parse_id("stream/`a/b`/create").entity == "`a/b`"
