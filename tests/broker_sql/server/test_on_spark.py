"""A server whose persistent queries run on Spark: pause, resume, terminate, and kill -9 of the server."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.spark_analytics.conftest import quick_jvms
from tests.support import needs
from tests.support.broker import BrokerProcess
from tests.support.sql_server import SqlServerProcess, running_server
from tests.support.wait import until

pytestmark = [pytest.mark.full, pytest.mark.timeout(320)]
WAIT_S = 120.0
EARLIEST = {"ksql.streams.auto.offset.reset": "earliest"}


def state_of(server: SqlServerProcess, name: str) -> str:
    (answer,) = server.run("SHOW QUERIES;")
    return next(str(each["state"]) for each in answer["queries"] if each["sinks"] == [name])


def test_queries_on_spark_pause_go_on_and_survive_a_kill(broker: BrokerProcess, tmp_path: Path, name: str) -> None:
    needs.require(needs.spark())
    settings = tmp_path / "server.properties"
    settings.write_text("brokercy.sql.host=spark\nbrokercy.sql.spark.master=local[2]\n")
    options = ["--service-id", f"{name}_", str(settings)]

    def counts(server: SqlServerProcess) -> list[list[object]]:
        return sorted(server.rows(f"SELECT id, n FROM {name}_C;"))

    with quick_jvms():
        server = SqlServerProcess(broker.bootstrap, tmp_path, options)
        try:
            server.wait()
            server.run(
                f"CREATE STREAM {name} (id STRING KEY, v INT) WITH (kafka_topic='{name}', value_format='JSON',"
                " partitions=2);"
            )
            made = server.run(
                f"CREATE TABLE {name}_C AS SELECT id, COUNT(*) AS n FROM {name} WHERE v > 0 GROUP BY id;",
                streamsProperties=EARLIEST,
            )
            query_id = made[0]["commandStatus"]["queryId"]
            for key, value in (("a", 1), ("b", 2), ("a", 3), ("c", 0)):
                server.run(f"INSERT INTO {name} (id, v) VALUES ('{key}', {value});")
            until(lambda: counts(server) == [["a", 2], ["b", 1]], "the first counts", WAIT_S)
            server.run(f"PAUSE {query_id};")
            assert state_of(server, f"{name}_C") == "PAUSED"
            server.run(f"INSERT INTO {name} (id, v) VALUES ('b', 5);")
            server.run(f"RESUME {query_id};")
            until(lambda: counts(server) == [["a", 2], ["b", 2]], "the count after the pause", WAIT_S)
            assert state_of(server, f"{name}_C") == "RUNNING"
        finally:
            server.kill()
        with running_server(broker.bootstrap, tmp_path, options) as server:
            server.run(f"INSERT INTO {name} (id, v) VALUES ('a', 7);")
            until(lambda: counts(server) == [["a", 3], ["b", 2]], "the count after the kill", WAIT_S)
            server.run(f"TERMINATE {query_id};")
            assert server.run("SHOW QUERIES;")[0]["queries"] == []
