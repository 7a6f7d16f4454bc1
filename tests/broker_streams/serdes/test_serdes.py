"""Serdes: values that formats do not allow, JSON and delimited text, and serdes by name."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest

from broker_streams.records import Window, Windowed
from broker_streams.serdes import Serde, SerdeError
from broker_streams.serdes.delimited import DelimitedSerde
from broker_streams.serdes.json_values import JSON
from broker_streams.serdes.lists import ListSerde
from broker_streams.serdes.names import by_name, of
from broker_streams.serdes.primitives import BOOLEAN, BYTES, DOUBLE, FLOAT, INTEGER, LONG, SHORT, STRING, UUID, VOID
from broker_streams.serdes.windowed import SessionWindowedSerde, TimeWindowedSerde

ORDER = DelimitedSerde({"id": "integer", "name": "string", "price": "decimal", "paid": "boolean", "rate": "double"})
ALL: tuple[Serde, ...] = (
    *(BOOLEAN, BYTES, DOUBLE, FLOAT, INTEGER, JSON, LONG, SHORT, STRING, UUID, VOID),
    *(ORDER, DelimitedSerde({"a": "string"}, "|"), ListSerde(ListSerde(LONG)), SessionWindowedSerde(STRING)),
    *(TimeWindowedSerde(None), TimeWindowedSerde(None, 5), SessionWindowedSerde(None)),
    *(TimeWindowedSerde(STRING), TimeWindowedSerde(LONG, 5), TimeWindowedSerde(ORDER, 7), TimeWindowedSerde(ORDER)),
)

NOT_WRITTEN: list[tuple[Serde, Any, str]] = [
    (STRING, 7, "7 is no text (STRING)"),
    (BYTES, "a", "'a' is no bytes (BYTES)"),
    (SHORT, 1 << 15, "32768 is not in SHORT: integers from -32768 to 32767"),
    (INTEGER, "a", "'a' is not in INTEGER: integers from -2147483648 to 2147483647"),
    (LONG, 1.5, "1.5 is not in LONG"),
    (FLOAT, 1e300, "is no number of 4 bytes (FLOAT)"),
    (DOUBLE, "x", "'x' is no number of 8 bytes (DOUBLE)"),
    (BOOLEAN, 1, "1 is neither True nor False (BOOLEAN)"),
    (UUID, "x", "'x' is no uuid.UUID (UUID)"),
    (VOID, 0, "0 is not None (VOID)"),
    (JSON, {1, 2}, "cannot be JSON"),
    (JSON, float("nan"), "nan cannot be JSON"),
    (ORDER, {"id": 1}, "has not the columns id, name, price, paid, rate"),
    (ListSerde(LONG), "ab", "'ab' is no list (LIST(LONG))"),
    (TimeWindowedSerde(STRING), "k", "'k' is no key in a window (TIME_WINDOWED(STRING))"),
]
NOT_READ: list[tuple[Serde, bytes, str]] = [
    (LONG, b"1234567", "7 bytes are no LONG, which has 8"),
    (FLOAT, b"12345", "5 bytes are no FLOAT, which has 4"),
    (BOOLEAN, b"\x02", "is no BOOLEAN: one byte, 0 or 1"),
    (UUID, b"x", "is no UUID"),
    (VOID, b"", "b'' is not None (VOID)"),
    (JSON, b"{", "is no JSON"),
    (JSON, b"\xff", "is no JSON"),
    (ORDER, b"1,2", "has 2 fields; the columns are 5"),
    (ORDER, b'1,"a,2,3', "is no delimited text"),
    (ORDER, b"x,a,1,true,1", "'x' in column id is no integer"),
    (ORDER, b"1,a,1,TRUE,1", "'TRUE' in column paid is no boolean"),
    (ListSerde(LONG), b"\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00", "is no LIST(LONG): it ends too soon"),
    (ListSerde(STRING), b"\x01\x00\x00\x00\x01\x00\x00\x00\x09a", "is no LIST(STRING): it ends too soon"),
    (ListSerde(STRING), b"\x00\x00\x00\x00\x00\x00\x00\x00\x00", "those of LIST(STRING) have any size"),
    (TimeWindowedSerde(STRING), b"1234567", "7 bytes are no key in a time window"),
    (SessionWindowedSerde(STRING), b"12345678", "8 bytes are no key in a session window"),
]


@pytest.mark.parametrize(("serde", "value", "text"), NOT_WRITTEN, ids=[text for _, _, text in NOT_WRITTEN])
def test_a_value_that_the_format_cannot_hold_is_named(serde: Serde, value: Any, text: str) -> None:
    """If this fails, a wrong value ends an application with a text that does not name it."""
    with pytest.raises(SerdeError) as refused:
        serde.serialize("orders", value)
    assert text in str(refused.value)


@pytest.mark.parametrize(("serde", "data", "text"), NOT_READ, ids=[text for _, _, text in NOT_READ])
def test_bytes_of_another_format_are_named(serde: Serde, data: bytes, text: str) -> None:
    """If this fails, a poison record ends an application with a text that does not name it, or is read as another."""
    with pytest.raises(SerdeError) as refused:
        serde.deserialize("orders", data)
    assert text in str(refused.value)


@pytest.mark.parametrize("serde", ALL, ids=lambda each: each.name)
def test_none_stays_none_and_the_name_finds_an_equal_serde(serde: Serde) -> None:
    """If this fails, a tombstone becomes a value, or a plan that is read back has other formats."""
    assert serde.serialize("t", None) is None
    assert serde.deserialize("t", None) is None
    found = by_name(serde.name)
    assert type(found) is type(serde)
    assert found.name == serde.name


def test_json_has_no_blanks_and_keeps_unicode() -> None:
    """If this fails, keys in JSON are other bytes than those of Java applications."""
    assert JSON.serialize("t", {"a": [1, "é", None]}) == '{"a":[1,"é",null]}'.encode()
    assert JSON.deserialize("t", b"null") is None


def test_delimited_fields_are_quoted_where_needed() -> None:
    """If this fails, a name with a comma moves all columns after it."""
    value = {"id": 7, "name": 'Smith, "Ann"\nx', "price": Decimal("1.50"), "paid": True, "rate": None}
    data = ORDER.serialize("t", value)
    assert data == b'7,"Smith, ""Ann""\nx",1.50,true,'
    assert ORDER.deserialize("t", b'7,"Smith, ""Ann""",1.50,true,') == {**value, "name": 'Smith, "Ann"'}


@pytest.mark.parametrize(
    ("columns", "delimiter", "text"),
    [
        ({}, ",", "needs at least one column"),
        ({"a": "long"}, ",", "column a has type 'long'; allowed are string, integer, double, boolean, decimal"),
        ({"a,b": "string"}, ",", "'a,b' is no name of a column"),
        ({"a": "string"}, "||", "the delimiter is '||'; one character is allowed"),
        ({"a": "string"}, '"', "the delimiter is '\"'"),
    ],
)
def test_wrong_columns_are_refused(columns: dict[str, str], delimiter: str, text: str) -> None:
    """If this fails, an application starts with a format that no record fits."""
    with pytest.raises(ValueError, match=r"column|delimiter") as refused:
        DelimitedSerde(columns, delimiter)
    assert text in str(refused.value)


def test_a_window_of_unknown_size_ends_at_the_largest_time() -> None:
    """If this fails, a reader without the size of the windows takes them for empty."""
    data = TimeWindowedSerde(STRING).serialize("t", Windowed("k", Window(5, 9)))
    assert TimeWindowedSerde(STRING).deserialize("t", data) == Windowed("k", Window(5, (1 << 63) - 1))
    assert TimeWindowedSerde(STRING, 4).deserialize("t", data) == Windowed("k", Window(5, 9))


def test_serdes_are_given_in_several_ways() -> None:
    """If this fails, `value=json` of the tutorial or default.key.serde of a configuration file is refused."""
    assert of(None) is None
    assert of(json) is JSON
    assert of(LONG) is LONG
    assert of("org.apache.kafka.common.serialization.Serdes$StringSerde") is STRING
    assert of("LIST(LONG)") is not None
    for wrong, text in (("Serdes$FooSerde", "'Serdes$FooSerde' is no serde; allowed are"), (7, "7 is no serde")):
        with pytest.raises(ValueError, match="is no serde") as refused:
            of(wrong)
        assert text in str(refused.value)


@pytest.mark.parametrize("made", [TimeWindowedSerde(None, 5), SessionWindowedSerde(None)])
def test_keys_in_windows_take_the_default_of_the_application(made: TimeWindowedSerde | SessionWindowedSerde) -> None:
    """If this fails, a windowed table of a stream without a serde of its own cannot be written."""
    with pytest.raises(SerdeError, match="keys in windows have no serde; give one"):
        made.serialize("t", Windowed("k", Window(5, 10)))
    found = made.with_defaults(STRING, LONG)
    assert found.inner is STRING
    assert found.deserialize("t", found.serialize("t", Windowed("k", Window(5, 10)))) == Windowed("k", Window(5, 10))
    given = type(made)(LONG)
    assert given.with_defaults(STRING, None).inner is LONG
