"""Results on a terminal: tables, rows while they come, and Ctrl-C that ends a query at the server."""

from __future__ import annotations

import _thread
import json
import threading
from decimal import Decimal
from io import StringIO
from typing import Any

import pytest
from rich.console import Console

from broker_sql.client import Settings, SqlClient
from broker_sql.terminal.output import Rate, TextOutput
from broker_sql.terminal.shown import Table, Text, shown, to_json, type_text
from tests.broker_sql.terminal.fake_server import ANSWERS, ORDERS, FakeServer


def text_output(client: SqlClient, width: int = 100) -> tuple[TextOutput, StringIO]:
    file = StringIO()
    return TextOutput(Console(file=file, width=width, highlight=False), client.close_query), file


def lines_of(file: StringIO) -> list[str]:
    return [line.rstrip() for line in file.getvalue().splitlines() if line.strip()]


def test_rows_stand_below_their_columns(client: SqlClient) -> None:
    output, file = text_output(client)
    with client.query("SELECT * FROM orders;", Settings()) as rows:
        output.rows(rows, is_push=False)
    head, rule, first, second, count = lines_of(file)
    assert head.split() == ["ID", "PRICE"]
    assert set(rule) <= {"─", " ", "╶", "╴"}
    assert (first.split(), second.split()) == (["1", "10.1"], ["2", "null"])
    assert head.index("PRICE") == first.index("10.1") == second.index("null")
    assert count == "2 rows"


def test_rows_that_come_later_stand_below_the_first_ones(client: SqlClient) -> None:
    output, file = text_output(client)
    output._batch([("ID", "INTEGER"), ("PRICE", "DOUBLE")], [2, 5], [["1", "10.1"]])
    output._batch(None, [2, 5], [["2", "null"]])
    head, _, first, second = lines_of(file)
    assert head.index("PRICE") == first.index("10.1") == second.index("null")


def test_wide_values_are_folded_and_never_cut(server: FakeServer, client: SqlClient) -> None:
    value = "abcdefghij" * 20
    server.rows = [{"columnNames": ["A", "B"], "columnTypes": ["STRING", "STRING"]}, [value, "x"]]
    output, file = text_output(client, 40)
    with client.query("SELECT * FROM orders;", Settings()) as rows:
        output.rows(rows, is_push=False)
    lines = lines_of(file)
    assert max(map(len, lines)) <= 40
    assert "".join(line[:38].split()[0] for line in lines[2:-1]) == value


@pytest.mark.parametrize("text", ["SELECT * FROM orders EMIT CHANGES;", "PRINT 'orders';"])
def test_ctrl_c_ends_a_query_that_does_not_end(server: FakeServer, client: SqlClient, text: str) -> None:
    server.is_endless = True
    output, file = text_output(client)
    seen = threading.Event()

    class Watching(StringIO):
        def write(self, written: str) -> int:
            if "null" in written or "key: " in written:
                seen.set()
            return file.write(written)

    output._console.file = Watching()

    def interrupt() -> None:
        if seen.wait(20):
            _thread.interrupt_main()

    interrupter = threading.Thread(target=interrupt)
    interrupter.start()
    try:
        if text.startswith("PRINT"):
            with client.print_topic(text, Settings()) as printed:
                output.printed(printed)
        else:
            with client.query(text, Settings()) as rows:
                output.rows(rows, is_push=True)
            assert ("/close-query", {"queryId": "q_1"}) in server.asked
    finally:
        interrupter.join()
    assert "ended" in lines_of(file)[-1]


def test_characters_that_steer_a_terminal_are_shown_as_escapes(client: SqlClient) -> None:
    output, file = text_output(client)
    with client.print_topic("PRINT 'orders';", Settings()) as printed:
        output.printed(printed)
    assert "\\x1b[31m" in file.getvalue()
    assert "\x1b" not in file.getvalue()


def test_rates_are_those_of_the_last_seconds() -> None:
    rate = Rate(100.0)
    rate.add(50, 101.0)
    assert rate.text(101.0) == "50 rows, 50 rows/s"
    rate.add(50, 110.0)
    assert rate.text(110.0) == "100 rows, 10 rows/s"
    rate.add(0, 120.0)
    assert rate.per_second(120.0) == 0


def test_entities_become_tables() -> None:
    (table,) = shown(ANSWERS["SHOW STREAMS;"][0])
    assert table == Table(("Stream", "Topic", "Key format", "Value format"), (("ORDERS", "orders", "KAFKA", "JSON"),))
    head, fields = shown({"@type": "sourceDescription", "sourceDescription": ORDERS})
    assert head == Text("STREAM ORDERS: topic orders, key KAFKA, value JSON")
    assert isinstance(fields, Table)
    assert fields.rows == (
        ("ID", "BIGINT", "KEY"),
        ("TAGS", "ARRAY<STRING>", ""),
        ("shop", "STRUCT<`CITY` STRING>", ""),
    )


FUNCTION = {"arguments": [{"name": "x", "type": "INT"}], "returnType": "INT"}
DECIMAL = {"type": "DECIMAL", "parameters": {"precision": 4, "scale": 2}}
QUERY = {"id": "CSAS_1", "statusCount": {"RUNNING": 2}, "sinks": ["A"]}
TOPIC = {"name": "t", "replicaInfo": [3, 3]}
EXPLAINED = {"id": "Q", "topology": "Topologies:\n x", "fields": []}


@pytest.mark.parametrize(
    ("kind", "entity", "part"),
    [
        ("currentStatus", {"commandStatus": {"status": "SUCCESS", "message": "Stream created"}}, "Stream created"),
        ("queries", {"queries": [QUERY]}, "CSAS_1 RUNNING: 2"),
        ("kafka_topics", {"topics": [TOPIC]}, "t 2 3"),
        ("kafka_topics_extended", {"topics": [TOPIC | {"consumerCount": 4}]}, "t 2 3 4"),
        ("properties", {"properties": [{"name": "a", "value": "b"}], "overwrittenProperties": ["a"]}, "a b session"),
        ("type_list", {"types": {"T": DECIMAL}}, "T DECIMAL(4, 2)"),
        ("variables", {"variables": [{"name": "a", "value": "b"}]}, "a b"),
        ("describe_function", {"name": "F", "functions": [FUNCTION]}, "F(x INT) -> INT"),
        ("queryDescription", {"queryDescription": EXPLAINED}, "Topologies:"),
        ("terminate_query", {"queryId": "Q", "wasTerminated": True}, "query Q ends"),
        ("assert_topic", {"topicName": "t", "exists": False}, "topic t does not exist"),
        ("assert_schema", {"subject": "s", "id": 3, "exists": True}, "schema s 3 exists"),
        ("warning_entity", {"message": "it exists"}, "it exists"),
        ("something_new", {"a": 1}, '"a": 1'),
        ("streams", {"streams": [], "warnings": [{"message": "old"}]}, "warning: old"),
    ],
)
def test_entity(kind: str, entity: dict[str, Any], part: str, client: SqlClient) -> None:
    output, file = text_output(client)
    output.entity({"@type": kind, **entity})
    assert part in " ".join(file.getvalue().split())


def test_json_keeps_the_digits_of_decimals() -> None:
    value = {"a": [Decimal("1.50"), Decimal("12345678901234567890.123")], "b": {"c": None, "d": 'é"'}, "e": []}
    text = to_json(value)
    assert text == '{"a": [1.50, 12345678901234567890.123], "b": {"c": null, "d": "é\\""}, "e": []}'
    assert json.loads(to_json(value, indent=2)) == json.loads(text)


def test_types_of_the_api_as_text() -> None:
    assert type_text({"type": "MAP", "memberSchema": {"type": "ARRAY", "memberSchema": {"type": "INTEGER"}}}) == (
        "MAP<STRING, ARRAY<INTEGER>>"
    )
