"""Functions in a server: limits from its settings, and functions in Python over a restart."""

from __future__ import annotations

import uuid
from pathlib import Path

from tests.support.broker import BrokerProcess
from tests.support.sql_server import running_server
from tests.support.wait import until

TWICE = "CREATE FUNCTION twice(n INT) RETURNS INT LANGUAGE PYTHON AS $$ n * 2 $$;"


def test_functions_in_python_and_limits(broker: BrokerProcess, name: str, tmp_path: Path) -> None:
    """If this fails, a function is lost by a restart, or a limit of the server's file has no effect."""
    settings = tmp_path / "server.properties"
    settings.write_text("ksql.functions.python.enabled=true\nksql.functions.collect_list.limit=1\n")
    options = ["--service-id", f"f{uuid.uuid4().hex[:8]}_", str(settings)]
    with running_server(broker.bootstrap, tmp_path, options) as server:
        (made,) = server.run(TWICE)
        assert made["commandStatus"]["status"] == "SUCCESS"
        server.run(
            f"CREATE STREAM {name} (id STRING KEY, v INT) WITH (kafka_topic='{name}', format='JSON', partitions=1);"
            f"INSERT INTO {name} (id, v) VALUES ('a', 4); INSERT INTO {name} (id, v) VALUES ('a', 5);"
            f"CREATE TABLE {name}_L AS SELECT id, COLLECT_LIST(v) AS l FROM {name} GROUP BY id;",
            streamsProperties={"ksql.streams.auto.offset.reset": "earliest"},
        )
        assert server.rows(f"SELECT id, twice(v) AS w FROM {name} WHERE twice(v) > 8;") == [["a", 10]]
        until(lambda: server.rows(f"SELECT * FROM {name}_L;") == [["a", [4]]], "the list with its limit")
    with running_server(broker.bootstrap, tmp_path, options) as server:
        (listed,) = server.run("SHOW FUNCTIONS;")
        assert {"name": "TWICE", "type": "SCALAR", "category": "PYTHON"} in listed["functions"]
        (described,) = server.run("DESCRIBE FUNCTION twice;")
        assert described["functions"][0]["returnType"] == "INT"
        assert "exists already" in server.failure(TWICE)["message"]
        server.run("DROP FUNCTION twice;")
        assert "there is no function TWICE" in server.failure("DESCRIBE FUNCTION twice;")["message"]
