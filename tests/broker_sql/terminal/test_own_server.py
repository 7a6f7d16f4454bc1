"""`broker-sql --bootstrap`: a server that lives as long as the terminal, and statements that live longer."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker_cy.client.errors import ClientError, Failure
from broker_sql import cli
from broker_sql.client import Server, Settings, SqlClient
from broker_sql.terminal.completion import complete
from broker_sql.terminal.names import ServerNames
from broker_sql.terminal.own_server import own_server
from tests.support.broker import QUICK, BrokerProcess

# A server that ends while its query joins a group may leave a member behind, whose session then ends soon.
SETTINGS = {
    **QUICK,
    "group.streams.min.session.timeout.ms": "1000",
    "group.streams.session.timeout.ms": "2000",
    "group.streams.min.heartbeat.interval.ms": "200",
    "group.streams.heartbeat.interval.ms": "200",
}


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    found = BrokerProcess(tmp_path, SETTINGS)
    try:
        yield found.start()
    finally:
        found.close()


def run(monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    monkeypatch.setattr(sys, "argv", ["broker-sql", "--output", "json", *words])
    return cli.main()


def test_statements_of_one_terminal_are_there_in_the_next(
    broker: BrokerProcess, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (
        "CREATE STREAM orders (shop STRING KEY, price DECIMAL(6, 2))"
        " WITH (kafka_topic='orders', partitions=1, format='JSON');"
        " INSERT INTO orders VALUES ('Berlin', 10.50);"
        " CREATE STREAM dear AS SELECT shop, price * 2 AS twice FROM orders WHERE price > 10;"
    )
    cluster = ["--bootstrap", broker.bootstrap, "--set", "auto.offset.reset=earliest"]
    assert run(monkeypatch, *cluster, "-e", text) == 0
    capsys.readouterr()
    preview = "PREVIEW 5 CREATE TABLE total AS SELECT shop, SUM(price) AS sum FROM orders GROUP BY shop;"
    assert run(monkeypatch, *cluster, "-e", preview) == 0
    assert json.loads(capsys.readouterr().out) == {"SHOP": "Berlin", "SUM": 10.5}
    assert run(monkeypatch, *cluster, "-e", "SELECT * FROM dear EMIT CHANGES LIMIT 1;") == 0
    (row,) = capsys.readouterr().out.splitlines()
    assert json.loads(row) == {"SHOP": "Berlin", "TWICE": 21.0}
    assert "21.00" in row


def test_the_server_serves_completion_and_ends_with_the_terminal(broker: BrokerProcess) -> None:
    with own_server(["--bootstrap", broker.bootstrap]) as url, SqlClient(Server(url)) as client:
        assert client.info()["serverStatus"] == "RUNNING"
        columns = "(`Key` INT PRIMARY KEY, b INT)"
        client.execute(f"CREATE TABLE t {columns} WITH (kafka_topic='t', partitions=1, format='JSON');", Settings())
        names = ServerNames(client)
        assert [each.text for each in complete("SELECT x.", " FROM t AS x;", names)[0]] == ["`Key`", "B"]
        assert [each.text for each in complete("DROP TABLE ", "", names)[0] if each.about == "table"] == ["T"]
        assert "UCASE(" in [each.text for each in complete("SELECT u", " FROM t", names)[0]]
    with SqlClient(Server(url)) as client, pytest.raises(ClientError) as raised:
        client.info()
    assert raised.value.failure is Failure.UNREACHABLE


def test_a_server_that_cannot_start_says_why(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "--bootstrap", "127.0.0.1:1", "-e", "SHOW STREAMS;") == 3
    error = json.loads(capsys.readouterr().err)["error"]
    assert (error["failure"], error["broker"]) == ("unreachable", "127.0.0.1:1")


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (["--server", "http://127.0.0.1:1", "--bootstrap", "127.0.0.1:1"], "either --server or --bootstrap"),
        (["--output", "json", "server"], "--output is an option of the terminal"),
    ],
)
def test_options_that_contradict_each_other(
    words: list[str], part: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["broker-sql", *words])
    assert cli.main() == 2
    assert part in capsys.readouterr().err
