"""Errors of records in a topic: without them a user does not learn why rows are missing."""

from __future__ import annotations

import base64
import pickle
from pathlib import Path
from typing import Any

from broker_cy.admin import AdminClient
from broker_cy.admin.produce import Producer
from broker_cy.wire.records import Record
from broker_sql.server.record_errors import QueryErrors
from tests.broker_cy.admin.conftest import with_client
from tests.support.broker import BrokerProcess
from tests.support.sql_server import running_server
from tests.support.wait import until

EARLIEST = {"ksql.streams.auto.offset.reset": "earliest"}


def test_errors_of_records_are_rows_of_a_stream(broker: BrokerProcess, tmp_path: Path, name: str) -> None:
    file = tmp_path / "ksql-server.properties"
    file.write_text(
        "ksql.logging.processing.topic.auto.create=true\nksql.logging.processing.rows.include=true\n"
        f"ksql.logging.processing.topic.name={name}_log\nksql.query.pull.stream.enabled=true\n"
    )
    with running_server(broker.bootstrap, tmp_path, [str(file), "--service-id", f"{name}_"]) as server:
        server.run(f"CREATE STREAM {name} (v INT) WITH (kafka_topic='{name}', value_format='JSON', partitions=1);")
        (made,) = server.run(f"CREATE STREAM {name}_O AS SELECT 1 / v AS q FROM {name};", streamsProperties=EARLIEST)
        server.run(
            f"CREATE STREAM {name}_E (logger STRING, message STRUCT<type INT, deserializationError"
            " STRUCT<target STRING, errorMessage STRING, recordB64 STRING, topic STRING>,"
            " recordProcessingError STRUCT<errorMessage STRING>>)"
            f" WITH (kafka_topic='{name}_log', value_format='JSON');"
        )

        async def write(client: AdminClient) -> None:
            producer = Producer(client.caller)
            texts = (b'{"v": "x"}', b'{"v": 0}', b'{"v": 1}')
            await producer.send(name, [Record(timestamp=1, key=None, value=each) for each in texts])

        with_client(broker.bootstrap, write)
        asked = "logger, message->type, message->deserializationError, message->recordProcessingError->errorMessage"

        def two() -> list[list[Any]] | None:
            found = server.rows(f"SELECT {asked} FROM {name}_E;")
            return found if len(found) == 2 else None

        rows = until(two, "two errors")
        query_id = made["commandStatus"]["queryId"]
        by_type = {row[1]: row for row in rows}
        assert {row[0] for row in rows} == {f"processing.{query_id}"}
        unread = by_type[0][2]
        assert (unread["TARGET"], unread["TOPIC"]) == ("value", name)
        assert base64.b64decode(unread["RECORDB64"]) == b'{"v": "x"}'
        assert f"{name}-0 at offset 0" in unread["ERRORMESSAGE"]
        assert "$.V" in unread["ERRORMESSAGE"]
        assert "1 / `V`" in by_type[1][3]


def test_errors_in_another_process_do_not_need_this_one() -> None:
    noted: list[tuple[str, str, Any]] = []
    errors = QueryErrors(lambda *each: noted.append(each))
    errors.query_id = "CSAS_1"
    errors("wrong", None)
    pickle.loads(pickle.dumps(errors))("wrong there", None)
    assert noted == [("CSAS_1", "wrong", None)]
