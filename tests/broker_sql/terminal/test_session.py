"""Statements of a session: each goes to the place that runs it, with what the session has set."""

from __future__ import annotations

import json
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from broker_cy.client.errors import ClientError
from broker_sql.client import SqlClient
from broker_sql.errors import ParseError
from broker_sql.terminal.output import JsonOutput
from broker_sql.terminal.session import SCRIPT_DEPTH_MAX, Session
from tests.broker_sql.terminal.fake_server import FakeServer


def run(client: SqlClient, text: str) -> list[Any]:
    file = StringIO()
    Session(client, JsonOutput(client.close_query, file)).run(text)
    return [json.loads(line) for line in file.getvalue().splitlines()]


def test_queries_print_and_statements_go_to_their_endpoints(server: FakeServer, client: SqlClient) -> None:
    found = run(
        client, "SET 'a'='b'; SHOW STREAMS; SELECT * FROM orders EMIT CHANGES; PRINT 'orders'; UNSET 'a'; SHOW STREAMS"
    )
    assert [path for path, _ in server.asked] == ["/ksql", "/query-stream", "/query-stream", "/ksql"]
    assert server.asked[1][1] == {"sql": "SELECT * FROM orders EMIT CHANGES;", "properties": {"a": "b"}}
    assert server.asked[3][1]["streamsProperties"] == {}
    assert found[1:3] == [{"ID": 1, "PRICE": 10.1}, {"ID": 2, "PRICE": None}]
    assert found[3] == "rowtime: 1, key: a"


def test_a_preview_is_a_query_on_the_last_records(server: FakeServer, client: SqlClient) -> None:
    found = run(
        client, "SET 'a'='b'; PREVIEW 5 CREATE TABLE t AS SELECT a FROM s; PREVIEW SELECT * FROM s EMIT CHANGES;"
    )
    assert found == [{"ID": 1, "PRICE": 10.1}, {"ID": 2, "PRICE": None}] * 2
    properties = {"a": "b", "brokercy.sql.last.records": "5"}
    assert server.asked == [
        ("/query-stream", {"sql": "CREATE TABLE t AS SELECT a FROM s;", "properties": properties}),
        (
            "/query-stream",
            {"sql": "SELECT * FROM s EMIT CHANGES;", "properties": properties | {"brokercy.sql.last.records": "100"}},
        ),
    ]


def test_variables_are_those_of_the_session(server: FakeServer, client: SqlClient) -> None:
    found = run(client, "DEFINE What = 'STREAMS'; SHOW ${what}; SHOW VARIABLES; UNDEFINE what;")
    assert server.asked[0][1]["ksql"] == "SHOW STREAMS;"
    assert found[1]["variables"] == [{"name": "What", "value": "STREAMS"}]
    for text in ("UNDEFINE what;", "UNSET 'a';"):
        with pytest.raises(ClientError):
            run(client, text)


def test_statements_before_an_error_are_run(server: FakeServer, client: SqlClient) -> None:
    with pytest.raises(ParseError, match="1:15"):
        run(client, "SHOW STREAMS; SHWO TABLES;")
    assert len(server.asked) == 1


def test_errors_of_a_later_statement_name_its_place(client: SqlClient) -> None:
    with pytest.raises(ClientError) as raised:
        run(client, "SHOW STREAMS;\n  DROP STREAM x;")
    assert str(raised.value).startswith("statement at line 2:3: ORDER does not exist.")


def test_scripts_run_scripts_up_to_a_depth(server: FakeServer, client: SqlClient, tmp_path: Path) -> None:
    inner, outer = tmp_path / "it's.sql", tmp_path / "outer.sql"
    inner.write_text("SHOW STREAMS;")
    outer.write_text(f"RUN SCRIPT '{str(inner).replace(chr(39), chr(39) * 2)}'; SHOW STREAMS;")
    run(client, f"RUN SCRIPT '{outer}';")
    assert len(server.asked) == 2
    endless = tmp_path / "endless.sql"
    endless.write_text(f"RUN SCRIPT '{endless}';")
    with pytest.raises(ClientError, match=f"more than {SCRIPT_DEPTH_MAX} scripts"):
        run(client, f"RUN SCRIPT '{endless}';")
    with pytest.raises(ClientError, match="No such file"):
        run(client, f"RUN SCRIPT '{tmp_path / 'none.sql'}';")
