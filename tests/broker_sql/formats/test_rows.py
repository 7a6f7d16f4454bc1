"""Bytes of rows: other programs read them, and equal keys must have equal bytes, as ksqlDB writes them."""

from __future__ import annotations

import pickle
from decimal import Decimal
from typing import Any

import pytest

from broker_sql import formats, types
from broker_sql.errors import AnalysisError
from broker_sql.formats.kinds import delimiter_of, kind_of
from broker_sql.types import Column, SqlType
from broker_streams.serdes import Serde, SerdeError


def value_serde(format_name: str, *columns: SqlType, unwraps: bool = False, **properties: str) -> Serde:
    named = [Column(f"C{index}", kind) for index, kind in enumerate(columns)]
    return formats.value_serde(format_name, properties, named, unwraps=unwraps)


STRUCT = types.Struct((("A", types.INTEGER), ("b", types.STRING)))
# A type, a value, and the text in JSON.
JSON_VALUES: list[tuple[SqlType, Any, bytes]] = [
    (types.BOOLEAN, True, b"true"),
    (types.INTEGER, -5, b"-5"),
    (types.BIGINT, 2**63 - 1, b"9223372036854775807"),
    (types.DOUBLE, 1.5, b"1.5"),
    (types.DOUBLE, 1e10, b"1.0E10"),
    (types.DOUBLE, 1e-5, b"1.0E-5"),
    (types.DOUBLE, 0.0, b"0.0"),
    (types.DOUBLE, -0.0, b"-0.0"),
    (types.DOUBLE, float("inf"), b'"Infinity"'),
    (types.STRING, 'a"\u20ac', b'"a\\"\xe2\x82\xac"'),
    (types.BYTES, b"abc", b'"YWJj"'),
    (types.Decimal(6, 4), Decimal("10.1000"), b"10.1000"),
    (types.Decimal(38, 0), Decimal("12345678901234567890123456789012345678"), b"1234567890" * 3 + b"12345678"),
    (types.DATE, 2, b"2"),
    (types.TIME, 1000, b"1000"),
    (types.TIMESTAMP, 1, b"1"),
    (types.Array(types.DOUBLE), [1.0, None], b"[1.0,null]"),
    (types.Map(types.STRING, types.BYTES), {"k": b"abc", "n": None}, b'{"k":"YWJj","n":null}'),
    (STRUCT, {"A": 1, "b": None}, b'{"A":1,"b":null}'),
]


@pytest.mark.parametrize(("kind", "value", "text"), JSON_VALUES, ids=str)
def test_a_value_is_written_as_json_and_read_back(kind: SqlType, value: Any, text: bytes) -> None:
    serde = value_serde("JSON", kind)
    assert serde.serialize("t", (value,)) == b'{"C0":' + text + b"}"
    assert serde.deserialize("t", b'{"C0":' + text + b"}") == (value,)
    single = value_serde("JSON", kind, unwraps=True)
    assert single.serialize("t", (value,)) == text
    assert single.deserialize("t", text) == (value,)


def test_a_null_key_of_a_map_is_the_text_null() -> None:
    serde = value_serde("JSON", types.Map(types.STRING, types.INTEGER), types.Map(types.STRING, types.DOUBLE))
    assert serde.serialize("t", ({None: 1, "a": 2}, {None: 1.0})) == b'{"C0":{"null":1,"a":2},"C1":{"null":1.0}}'


# A type, a text of JSON, and the value that a column of the type reads.
COERCED: list[tuple[SqlType, str, Any]] = [
    (types.INTEGER, '"12"', 12),
    (types.INTEGER, "12.9", 12),
    (types.INTEGER, "4294967297", 1),
    (types.BIGINT, "1.8446744073709551617E19", 1),
    (types.BIGINT, "18446744073709551617", 1),
    (types.DOUBLE, '"1e3"', 1000.0),
    (types.DOUBLE, '"-Infinity"', float("-inf")),
    (types.DOUBLE, "123456789012345678901", 123456789012345678901.0),
    (types.STRING, "1.50", "1.50"),
    (types.STRING, "1e3", "1E+3"),
    (types.STRING, "-0.0", "0.0"),
    (types.STRING, "123456789012345678901234567890", "123456789012345678901234567890"),
    (types.STRING, "true", "true"),
    (types.STRING, '{"a": [1.10, {"b": null}]}', '{"a":[1.10,{"b":null}]}'),
    (types.STRING, '[1, null, "x", {"a": 1}]', '[1, null, x, {"a":1}]'),
    (types.Decimal(5, 2), '"1.5"', Decimal("1.50")),
    (types.Decimal(5, 2), "7", Decimal("7.00")),
    (types.Decimal(20, 18), "1.123456789012345678", Decimal("1.123456789012345678")),
    (types.Decimal(3, 2), "1.1000", Decimal("1.10")),
    (types.TIMESTAMP, '"15"', 15),
    (STRUCT, '{"a": "3", "B": 4}', {"A": 3, "b": None}),
]


@pytest.mark.parametrize(("kind", "text", "value"), COERCED, ids=str)
def test_a_column_takes_other_values_of_json(kind: SqlType, text: str, value: Any) -> None:
    found = value_serde("JSON", kind).deserialize("t", b'{"C0": ' + text.encode() + b"}")
    assert found == (value,)
    assert repr(found) == repr((value,))


@pytest.mark.parametrize(
    ("kind", "text", "told"),
    [
        (types.BOOLEAN, "1", "$.C0: 1 is no BOOLEAN"),
        (types.INTEGER, '"1.5"', "1.5"),
        (types.INTEGER, '"2147483648"', "2147483648"),
        (types.TIME, "86400001", "86400001 is no TIME"),
        (types.Decimal(3, 2), "10.5", "does not fit in DECIMAL(3, 2)"),
        (types.Decimal(3, 2), "1.001", "more than 2 digits"),
        (types.Decimal(3, 2), "1e999999999", "does not fit in DECIMAL(3, 2)"),
        (types.BYTES, '"a"', "is no base64"),
        (types.Array(types.INTEGER), '[1, {"a": 2}]', '$.C0[1]: {"a":2} is no INTEGER'),
        (types.Map(types.STRING, types.INTEGER), '{"k": []}', "$.C0.k.value: [] is no INTEGER"),
        (STRUCT, '{"A": true}', "$.C0.A: true is no INTEGER"),
        (types.STRING, '"a', "cannot be read as JSON"),
    ],
    ids=str,
)
def test_a_value_that_does_not_fit_is_named(kind: SqlType, text: str, told: str) -> None:
    with pytest.raises(SerdeError) as caught:
        value_serde("JSON", kind).deserialize("t", b'{"C0": ' + text.encode() + b"}")
    assert told in str(caught.value)


def test_fields_are_found_by_name_then_by_upper_case_name() -> None:
    serde = formats.value_serde("JSON", {}, [Column("A", types.INTEGER), Column("b", types.INTEGER)])
    for _ in range(2):
        assert serde.deserialize("t", b'{"a": 1, "A": 2, "B": 3}') == (2, None)
        assert serde.deserialize("t", b'{"a": 1, "b": 3, "c": 4}') == (1, 3)
    assert serde.deserialize("t", b"null") is None
    with pytest.raises(SerdeError, match="is no object"):
        serde.deserialize("t", b"[1]")


def test_no_value_and_null_in_a_single_column_are_different_where_json_is_not_wrapped() -> None:
    serde = value_serde("JSON", types.INTEGER, unwraps=True)
    assert serde.deserialize("t", None) is None
    assert serde.deserialize("t", b"null") == (None,)
    assert serde.serialize("t", (None,)) is None
    assert serde.serialize("t", None) is None


def test_a_lone_surrogate_becomes_a_question_mark() -> None:
    serde = value_serde("JSON", types.STRING, types.Array(types.STRING))
    assert serde.deserialize("t", b'{"C0": "\\ud800"}') == ("\ud800", None)
    assert serde.serialize("t", ("\ud800", ["\ud800x"])) == b'{"C0":"?","C1":["?x"]}'


@pytest.mark.parametrize(
    ("kind", "value", "data"),
    [
        (types.INTEGER, 1, b"\0\0\0\1"),
        (types.BIGINT, 1, b"\0\0\0\0\0\0\0\1"),
        (types.DOUBLE, 1.0, b"\x3f\xf0\0\0\0\0\0\0"),
        (types.STRING, "a", b"a"),
        (types.BYTES, b"a", b"a"),
    ],
    ids=str,
)
def test_a_single_column_is_written_as_kafkas_serializers_do(kind: SqlType, value: Any, data: bytes) -> None:
    serde = formats.key_serde("KAFKA", {}, [Column("K", kind)])
    assert serde.serialize("t", (value,)) == data
    assert serde.deserialize("t", data) == (value,)
    assert serde.serialize("t", (None,)) is None
    assert serde.deserialize("t", None) is None


def test_kafka_takes_one_column_of_some_types_and_none_takes_no_column() -> None:
    with pytest.raises(AnalysisError, match=r"C0, C1 are 2"):
        value_serde("KAFKA", types.STRING, types.STRING)
    with pytest.raises(AnalysisError, match="column C0: format KAFKA has no BOOLEAN"):
        value_serde("KAFKA", types.BOOLEAN)
    with pytest.raises(AnalysisError, match="C0 need another value format"):
        value_serde("NONE", types.STRING)
    nothing = formats.key_serde("NONE", {}, [])
    assert nothing.deserialize("t", b"ignored") is None
    assert nothing.serialize("t", ()) is None


@pytest.mark.parametrize(
    ("kinds", "row", "text"),
    [
        ((types.INTEGER, types.BIGINT, types.DOUBLE), (1, 2, 1e10), "1,2,1.0E10"),
        ((types.STRING, types.STRING), ("a,b", 'c"d'), '"a,b","c""d"'),
        ((types.STRING, types.STRING), (None, None), ","),
        ((types.STRING, types.STRING), ("-1", " x"), '"-1"," x"'),
        ((types.STRING, types.STRING), ("\u00e9", "\u00e9"), '"\u00e9",\u00e9'),
        ((types.STRING, types.STRING), ("a\nb", "#c"), '"a\nb","#c"'),
        ((types.INTEGER, types.INTEGER), (-1, -1), '"-1",-1'),
        ((types.BOOLEAN, types.BYTES), (True, b"abc"), "true,YWJj"),
        ((types.Decimal(12, 10), types.DATE, types.TIME), (Decimal("1E-10"), 3, 4), "0.0000000001,3,4"),
    ],
    ids=str,
)
def test_fields_are_written_between_delimiters_and_read_back(
    kinds: tuple[SqlType, ...], row: tuple[Any, ...], text: str
) -> None:
    serde = value_serde("DELIMITED", *kinds)
    assert serde.serialize("t", row) == text.encode()
    assert serde.deserialize("t", text.encode()) == row


def test_delimiters_are_characters_or_names() -> None:
    assert [delimiter_of({"delimiter": each}) for each in ("|", "TAB", "SPACE")] == ["|", "\t", " "]
    assert value_serde("DELIMITED", types.STRING, types.INTEGER, delimiter="TAB").serialize("t", ("a", 1)) == b"a\t1"
    for wrong in ("", " ", "ab", "tab"):
        with pytest.raises(AnalysisError):
            value_serde("DELIMITED", types.STRING, delimiter=wrong)


@pytest.mark.parametrize("text", ["", "1", "1,2,3", "x,2", '"1,2', '"1"x,2', "1,2147483648"])
def test_a_record_with_other_fields_is_an_error(text: str) -> None:
    with pytest.raises(SerdeError, match="t: value"):
        value_serde("DELIMITED", types.INTEGER, types.INTEGER).deserialize("t", text.encode())


def test_a_key_of_one_column_is_not_wrapped_if_the_format_has_the_choice() -> None:
    one, two = Column("A", types.INTEGER), Column("B", types.STRING)
    assert formats.key_serde("JSON", {}, [one]).serialize("t", (1,)) == b"1"
    assert formats.key_serde("JSON", {}, [one, two]).serialize("t", (1, "x")) == b'{"A":1,"B":"x"}'
    assert formats.key_serde("DELIMITED", {}, [one, two]).serialize("t", (1, "x")) == b"1,x"


def test_formats_are_named_in_errors() -> None:
    with pytest.raises(AnalysisError, match=r"JSN is no format: NONE, .*; JSON is similar"):
        kind_of("JSN")
    with pytest.raises(AnalysisError, match="format JSON does not have the setting delimiter"):
        value_serde("JSON", types.STRING, delimiter="x")
    with pytest.raises(AnalysisError, match="keys of maps are STRING"):
        value_serde("JSON", types.Map(types.INTEGER, types.STRING))
    with pytest.raises(AnalysisError, match="PROTOBUF has no record without a field"):
        value_serde("PROTOBUF", types.STRING, unwraps=True)


def test_a_serde_goes_to_another_process_and_has_a_name_of_its_own() -> None:
    serde = value_serde("JSON", types.DOUBLE, STRUCT)
    copy = pickle.loads(pickle.dumps(serde))
    assert copy.name == serde.name != value_serde("JSON", types.DOUBLE).name
    assert copy.serialize("t", (1e9, {"A": 1, "b": "x"})) == b'{"C0":1.0E9,"C1":{"A":1,"b":"x"}}'
