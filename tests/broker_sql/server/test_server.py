"""A server against a broker: statements, persistent, push and pull queries, over HTTP."""

from __future__ import annotations

import json
import socket
from pathlib import Path

from broker_cy.admin import AdminClient
from broker_cy.admin.produce import Producer
from broker_cy.wire.records import Record
from tests.broker_cy.admin.conftest import with_client
from tests.support.broker import BrokerProcess
from tests.support.sql_server import Reply, SqlServerProcess, running_server
from tests.support.wait import until

EARLIEST = {"ksql.streams.auto.offset.reset": "earliest"}


def create_stream(server: SqlServerProcess, name: str) -> None:
    server.run(
        f"CREATE STREAM {name} (id STRING KEY, v INT) WITH (kafka_topic='{name}', value_format='JSON', partitions=2);"
    )


def insert(server: SqlServerProcess, name: str, *rows: tuple[str, int]) -> None:
    for key, value in rows:
        server.run(f"INSERT INTO {name} (id, v) VALUES ('{key}', {value});")


def test_a_table_of_counts_is_kept_and_read(server: SqlServerProcess, name: str) -> None:
    create_stream(server, name)
    (made,) = server.run(
        f"CREATE TABLE {name}_C AS SELECT id, COUNT(*) AS n FROM {name} GROUP BY id;", streamsProperties=EARLIEST
    )
    assert made["@type"] == "currentStatus"
    assert made["commandId"] == f"table/`{name}_C`/create"
    query_id = made["commandStatus"]["queryId"]
    assert made["commandStatus"] == {
        "status": "SUCCESS",
        "message": f"Created query with ID {query_id}",
        "queryId": query_id,
    }
    insert(server, name, ("a", 1), ("b", 2), ("a", 3))

    def counted() -> bool:
        return sorted(server.rows(f"SELECT * FROM {name}_C;")) == [["a", 2], ["b", 1]]

    until(counted, "the counts")
    assert server.rows(f"SELECT n, id FROM {name}_C WHERE id = 'a';") == [[2, "a"]]
    assert server.rows(f"SELECT * FROM {name}_C WHERE id IN ('a', 'x') AND n > 5;") == []
    assert sorted(server.rows(f"SELECT id, v FROM {name};")) == [["a", 1], ["a", 3], ["b", 2]]
    pushed = server.rows(f"SELECT id, v + 1 AS w FROM {name} EMIT CHANGES LIMIT 3;", properties=EARLIEST)
    assert sorted(pushed) == [["a", 2], ["a", 4], ["b", 3]]


def test_answers_have_the_shapes_of_ksqldb(server: SqlServerProcess, name: str) -> None:
    """If this fails, clients of ksqlDB read other members, or miss them."""
    create_stream(server, name)
    (streams,) = server.run("SHOW STREAMS;")
    row = {"type": "STREAM", "name": name, "topic": name, "keyFormat": "KAFKA", "valueFormat": "JSON"}
    assert {**row, "isWindowed": False} in streams["streams"]
    (described,) = server.run(f"DESCRIBE {name} EXTENDED;")
    description = described["sourceDescription"]
    assert description["fields"][0] == {
        "name": "ID",
        "schema": {"type": "STRING", "fields": None, "memberSchema": None},
        "type": "KEY",
    }
    assert (description["partitions"], description["replication"]) == (2, 1)
    failed = server.failure(f"SHOW STREAMS; DROP STREAM {name}_X;")
    assert (failed["@type"], failed["error_code"]) == ("statement_error", 40001)
    assert failed["statementText"] == f"DROP STREAM {name}_X"
    assert [each["@type"] for each in failed["entities"]] == ["streams"]
    assert server.failure(f"SELECT * FROM {name};")["error_code"] == 40002
    old = server.call("POST", "/query", {"ksql": f"SELECT * FROM {name} EMIT CHANGES LIMIT 0;"}).body
    assert old[0]["header"]["schema"] == "`ID` STRING, `V` INTEGER"
    assert old[1] == {"finalMessage": "Limit Reached"}
    status = server.call("GET", f"/status/stream/%60{name}%60/create").body
    assert status == {"status": "SUCCESS", "message": "Stream created", "queryId": None}
    assert server.call("GET", "/info").body["KsqlServerInfo"]["serverStatus"] == "RUNNING"
    assert server.call("GET", "/healthcheck").body["isHealthy"] is True


def test_rows_that_are_streamed_in_are_answered_one_by_one(server: SqlServerProcess, name: str) -> None:
    create_stream(server, name)
    lines = [{"target": name}, {"id": "a", "v": 1}, {"`ID`": "b", "V": 2}, {"v": "x"}, {"v": 4}]
    body = "\n".join(map(json.dumps, lines)).encode()
    answers = [json.loads(each) for each in server.call("POST", "/inserts-stream", body).body.splitlines()]
    assert answers[:2] == [{"status": "ok", "seq": 0}, {"status": "ok", "seq": 1}]
    assert (answers[2]["status"], answers[2]["seq"]) == ("error", 2)
    assert "'x' is no INTEGER" in answers[2]["message"]
    assert {(key, value) for key, value in server.rows(f"SELECT id, v FROM {name};")} >= {("a", 1), ("b", 2)}
    assert server.call("POST", "/inserts-stream", b'{"target":"nothing"}\n').status == 400


def test_a_killed_server_continues_with_its_statements(broker: BrokerProcess, tmp_path: Path, name: str) -> None:
    """If this fails, statements or queries are lost with a server, or counted twice by the next one."""
    options = ["--service-id", f"{name}_"]
    first = SqlServerProcess(broker.bootstrap, tmp_path, options, "first").wait()
    second = SqlServerProcess(broker.bootstrap, tmp_path, options, "second")
    try:
        create_stream(first, name)
        (made,) = first.run(f"CREATE TABLE {name}_C AS SELECT id, COUNT(*) AS n FROM {name} GROUP BY id;")
        second.wait()
        assert second.run("SHOW QUERIES;")[0]["queries"][0]["id"] == made["commandStatus"]["queryId"]
        insert(second, name, ("a", 1), ("b", 1))
        until(lambda: sorted(second.rows(f"SELECT * FROM {name}_C;")) == [["a", 1], ["b", 1]], "the counts")
        first.kill()
        insert(second, name, ("a", 2))
        until(lambda: sorted(second.rows(f"SELECT * FROM {name}_C;")) == [["a", 2], ["b", 1]], "the counts again")
        second.run("PAUSE ALL;", commandSequenceNumber=made["commandSequenceNumber"])
        second.stop()
    finally:
        first.kill()
        second.kill()
    with running_server(broker.bootstrap, tmp_path, options) as third:
        assert third.run("SHOW QUERIES;")[0]["queries"][0]["state"] == "PAUSED"
        assert sorted(third.rows(f"SELECT * FROM {name}_C;")) == [["a", 2], ["b", 1]]
        third.run("TERMINATE ALL;")
        assert third.run("SHOW QUERIES;")[0]["queries"] == []


def test_records_that_cannot_be_replayed_are_named(broker: BrokerProcess, tmp_path: Path, name: str) -> None:
    """If this fails, one bad record keeps a server from starting, or is left out without a word."""
    options = ["--service-id", f"{name}_"]
    with running_server(broker.bootstrap, tmp_path, options) as server:
        create_stream(server, name)

    async def write(client: AdminClient) -> None:
        plan = b'{"statement":"CREATE STREAM B (a INT) WITH (kafka_topic=\'b\', value_format=\'JSON\');","plan":{}}'
        records = [
            Record(timestamp=1, key=b'"stream/`OLD`/create"', value=b'{"statement":"CREATE STREAM OLD"}'),
            Record(timestamp=1, key=b"?", value=b"?"),
            Record(timestamp=1, key=b'"stream/`B`/create"', value=plan),
        ]
        await Producer(client.caller).send(f"_confluent-ksql-{name}__command_topic", records)

    with_client(broker.bootstrap, write)
    with running_server(broker.bootstrap, tmp_path, options) as server:
        named = server.call("GET", "/info").body["KsqlServerInfo"]["setAside"]
        assert [each["key"] for each in named] == ["stream/`OLD`/create", "?"]
        assert server.call("GET", "/healthcheck").body["details"]["commandRunner"]["isHealthy"] is False
        assert {each["name"] for each in server.run("SHOW STREAMS;")[0]["streams"]} == {name, "B"}
    file = tmp_path / "ksql-server.properties"
    file.write_text(f"brokercy.sql.set.aside={','.join(str(each['offset']) for each in named)}\n")
    with running_server(broker.bootstrap, tmp_path, [*options, str(file)]) as server:
        assert server.call("GET", "/healthcheck").body["isHealthy"] is True


def test_pull_queries_answer_as_those_of_ksqldb(server: SqlServerProcess, name: str) -> None:
    """If this fails, clients cannot tell a table from a stream, or a wrong key reads all rows of a table."""
    create_stream(server, name)
    server.run(
        f"CREATE TABLE {name}_W AS SELECT id, COUNT(*) AS n FROM {name} WINDOW TUMBLING (SIZE 1 SECOND) GROUP BY id;",
        streamsProperties=EARLIEST,
    )
    for key, time_ms in (("a", 1000), ("a", 2100), ("b", 1500)):
        server.run(f"INSERT INTO {name} (rowtime, id, v) VALUES ({time_ms}, '{key}', 1);")
    old = server.call("POST", "/query", {"ksql": f"SELECT id FROM {name} LIMIT 1;"}).body
    assert (old[0]["header"]["schema"], old[-1]) == ("`ID` STRING", {"finalMessage": "Limit Reached"})
    until(lambda: len(server.rows(f"SELECT * FROM {name}_W;")) == 3, "three windows")
    of_a = server.call(
        "POST", "/query", {"ksql": f"SELECT * FROM {name}_W WHERE id = 'a' AND windowstart > 1000;"}
    ).body
    assert (
        of_a[0]["header"]["schema"] == "`ID` STRING KEY, `WINDOWSTART` BIGINT KEY, `WINDOWEND` BIGINT KEY, `N` BIGINT"
    )
    assert of_a[1:] == [{"row": {"columns": ["a", 2000, 3000, 1]}}]
    for wrong, reason in (
        (f"SELECT * FROM {name}_W WHERE id IN ('a', 1);", "does not fit the key column"),
        (f"SELECT * FROM {name}_W WHERE id IN ('a', NULL);", "cannot be NULL"),
        (f"SELECT rowoffset FROM {name}_W;", "cannot have ROWOFFSET in SELECT"),
        (f"SELECT n, n FROM {name}_W;", "is there twice"),
        (f"SELECT COUNT(*) FROM {name};", "aggregate"),
    ):
        failed = server.call("POST", "/query", {"ksql": wrong})
        assert (failed.status, reason in failed.body["message"]) == (400, True), failed


def test_a_range_of_text_keys_is_read_while_scans_are_forbidden(server: SqlServerProcess, name: str) -> None:
    """If this fails, a query without a key reads a whole table although the settings forbid it."""
    create_stream(server, name)
    server.run(
        f"CREATE TABLE {name}_C AS SELECT id, COUNT(*) AS n FROM {name} GROUP BY id;", streamsProperties=EARLIEST
    )
    insert(server, name, ("a", 1), ("b", 1))
    no_scan = {"ksql.query.pull.table.scan.enabled": False}
    no_range = {**no_scan, "ksql.query.pull.range.scan.enabled": False}

    def answer(where: str, properties: dict[str, bool]) -> Reply:
        text = f"SELECT * FROM {name}_C WHERE {where};"
        return server.call("POST", "/query", {"ksql": text, "streamsProperties": properties})

    until(lambda: len(server.rows(f"SELECT * FROM {name}_C;")) == 2, "two counts")
    assert answer("id > 'a'", no_scan).body[1:] == [{"row": {"columns": ["b", 1]}}]
    for where, properties in (("id > 'a'", no_range), ("id > 'a' AND id < 'c'", no_scan), ("n > 0", no_scan)):
        assert "table.scan.enabled is false" in answer(where, properties).body["message"]


def test_a_scalable_push_query_is_named_as_one(server: SqlServerProcess, name: str) -> None:
    """If this fails, clients of ksqlDB take a query on its newest rows for another kind."""
    create_stream(server, name)
    server.run(f"CREATE STREAM {name}_P AS SELECT * FROM {name};")

    def query_id(source: str, **properties: object) -> str:
        body = {"ksql": f"SELECT * FROM {source} EMIT CHANGES LIMIT 0;", "streamsProperties": properties}
        found: str = server.call("POST", "/query", body).body[0]["header"]["queryId"]
        return found

    scalable = {"ksql.query.push.v2.enabled": True}
    assert query_id(f"{name}_P", **scalable).startswith("SCALABLE_PUSH_QUERY_")
    assert query_id(f"{name}_P", **scalable, **{"auto.offset.reset": "earliest"}).startswith("transient_")
    assert query_id(name, **scalable).startswith("transient_")
    assert query_id(f"{name}_P").startswith("transient_")


def test_rows_are_acknowledged_while_the_client_still_sends(server: SqlServerProcess, name: str) -> None:
    """If this fails, a client that waits for an answer before the next row waits for ever. The target is a URL, as
    the library hyper sends it.
    """
    create_stream(server, name)
    host, port = server.url.removeprefix("http://").rsplit(":", 1)
    with socket.create_connection((host, int(port)), 30) as connection:

        def send(line: dict[str, object]) -> None:
            data = json.dumps(line).encode() + b"\n"
            connection.sendall(b"%x\r\n%s\r\n" % (len(data), data))

        def read_until(text: bytes) -> None:
            got = b""
            while text not in got:
                part = connection.recv(4096)
                assert part, got
                got += part

        head = f"POST {server.url}/inserts-stream HTTP/1.1\r\nHost: {host}\r\nTransfer-Encoding: chunked\r\n\r\n"
        connection.sendall(head.encode())
        send({"target": name})
        for at in range(3):
            send({"id": "a", "v": at})
            read_until(b'{"status":"ok","seq":%d}' % at)
        connection.sendall(b"0\r\n\r\n")
        read_until(b"0\r\n\r\n")
    assert len(server.rows(f"SELECT * FROM {name};")) == 3


def test_a_query_by_key_is_planned_once_for_all_keys(server: SqlServerProcess, name: str) -> None:
    """If this fails, a query for one key answers with the rows of another, or with those of a table that is gone."""
    server.run(
        f"CREATE TABLE {name} (id STRING PRIMARY KEY, v INT) WITH (kafka_topic='{name}', format='JSON', partitions=1);"
    )
    for key in ("a", "it''s", "b"):
        server.run(f"INSERT INTO {name} (id, v) VALUES ('{key}', {len(key)});")
    until(lambda: len(server.rows(f"SELECT * FROM {name};")) == 3, "the rows")
    for _ in range(2):
        for key in ("a", "it''s", "b"):
            assert server.rows(f"SELECT v, id FROM {name} WHERE id = '{key}';") == [[len(key), key.replace("''", "'")]]
        assert server.rows(f"SELECT v, id FROM {name} WHERE id = 'nobody';") == []
        assert server.rows(f"SELECT v, id FROM {name} WHERE v > 1 AND id = 'a';") == []
        assert len(server.rows(f"SELECT v, id FROM {name} WHERE v = 1;")) == 2
        assert server.rows(f"SELECT id FROM {name} WHERE v = 5;") == [["it's"]]
    server.run(f"DROP TABLE {name};")
    assert server.call("POST", "/query-stream", {"sql": f"SELECT v, id FROM {name} WHERE id = 'a';"}).status == 400
    server.run(
        f"CREATE TABLE {name} (id INT PRIMARY KEY, w INT) WITH (kafka_topic='{name}2', format='JSON', partitions=1);"
    )
    server.run(f"INSERT INTO {name} (id, w) VALUES (-7, 9);")
    until(lambda: server.rows(f"SELECT w FROM {name} WHERE id = -7;") == [[9]], "the row")
    assert server.rows(f"SELECT w FROM {name} WHERE id = 7;") == []
    assert server.rows(f"SELECT w FROM {name} WHERE id = 99999999999;") == []
    assert server.call("POST", "/query-stream", {"sql": f"SELECT w FROM {name} WHERE id = 'a';"}).status == 400


def test_a_query_of_existing_records_ends_with_them(server: SqlServerProcess, name: str) -> None:
    """If this fails, a preview reads other records than the last ones, waits for more, or creates what it shows."""
    create_stream(server, name)
    insert(server, name, *((("a", "b")[at % 2], at) for at in range(6)))
    whole = {**EARLIEST, "brokercy.sql.until": "now"}
    assert sorted(server.rows(f"SELECT v FROM {name} EMIT CHANGES;", properties=whole)) == [[at] for at in range(6)]
    create = f"CREATE TABLE {name}_P AS SELECT id, SUM(v) AS s FROM {name} GROUP BY id;"
    last = {"brokercy.sql.last.records": 2}
    totals = dict(server.rows(create, properties=last))
    # Both keys are in one partition.
    assert totals == {"a": 4, "b": 5}
    assert dict(server.rows(create, properties=whole)) == {"a": 0 + 2 + 4, "b": 1 + 3 + 5}
    assert server.failure(f"DESCRIBE {name}_P;")["error_code"] == 40001
    old = server.call("POST", "/query", {"ksql": create, "streamsProperties": last}).body
    assert old[-1] == {"finalMessage": "Query Completed"}
    wrong = server.call("POST", "/query", {"ksql": create, "streamsProperties": {"brokercy.sql.last.records": 0}})
    assert (wrong.status, "a number from 1" in wrong.body["message"]) == (400, True)
    assert server.call("POST", "/query", {"ksql": create}).status == 400
