"""The client of the REST API: a row, a digit or an error that it loses is lost to every user of it."""

from __future__ import annotations

from decimal import Decimal

import pytest

from broker_cy.client.errors import ClientError, Failure
from broker_sql.client import Refused, Server, Settings, SqlClient
from tests.broker_sql.terminal.fake_server import FakeServer

NONE = Settings()


def test_statements_carry_the_properties_of_the_session(server: FakeServer, client: SqlClient) -> None:
    (entity,) = client.execute("SHOW STREAMS;", Settings({"auto.offset.reset": "earliest"}))
    assert entity["streams"][0]["name"] == "ORDERS"
    assert server.asked == [
        ("/ksql", {"ksql": "SHOW STREAMS;", "streamsProperties": {"auto.offset.reset": "earliest"}})
    ]


def test_an_error_keeps_the_results_of_the_statements_before_it(client: SqlClient) -> None:
    with pytest.raises(Refused) as raised:
        client.execute("DROP STREAM x;", NONE)
    error = raised.value
    assert (error.status, error.error_code, error.statement) == (400, 40001, "DROP STREAM x;")
    assert error.reason.startswith("ORDER does not exist")
    assert error.entities[0]["@type"] == "streams"


def test_rows_keep_the_digits_of_decimals(client: SqlClient) -> None:
    with client.query("SELECT * FROM orders;", NONE) as rows:
        assert rows.query_id == "q_1"
        assert rows.columns == [("ID", "BIGINT"), ("PRICE", "DECIMAL(4, 2)")]
        assert list(rows) == [[1, Decimal("10.1")], [2, None]]


def test_an_error_in_the_midst_of_rows_is_raised(server: FakeServer, client: SqlClient) -> None:
    server.rows = [*server.rows, {"@type": "generic_error", "error_code": 50000, "message": "the query failed"}]
    found: list[list[object]] = []
    with client.query("SELECT * FROM orders;", NONE) as rows, pytest.raises(Refused, match="the query failed"):
        found.extend(iter(rows))
    assert [row[0] for row in found] == [1, 2]


def test_an_error_instead_of_the_header_is_raised(server: FakeServer, client: SqlClient) -> None:
    server.rows = [{"error_code": 40001, "message": "no such stream"}]
    with pytest.raises(Refused, match="no such stream"), client.query("SELECT * FROM x;", NONE):
        pass
    server.rows = []
    with pytest.raises(ClientError, match="no header"), client.query("SELECT * FROM x;", NONE):
        pass


def test_lines_of_print_are_as_they_come(client: SqlClient) -> None:
    with client.print_topic("PRINT 'orders';", NONE) as printed:
        assert next(iter(printed)) == "rowtime: 1, key: a"


def test_a_server_that_is_not_there(server: FakeServer) -> None:
    with SqlClient(Server("http://127.0.0.1:1")) as client, pytest.raises(ClientError) as raised:
        client.info()
    assert raised.value.failure is Failure.UNREACHABLE


def test_a_login_is_sent_and_never_shown(server: FakeServer) -> None:
    server.login = "ann:secret"
    with SqlClient(server.server) as client, pytest.raises(Refused, match="wrong login"):
        client.info()
    logged_in = Server(server.url, login=("ann", "secret"))
    assert "secret" not in repr(logged_in)
    with SqlClient(logged_in) as client:
        assert client.info()["version"] == "0.29.0"
