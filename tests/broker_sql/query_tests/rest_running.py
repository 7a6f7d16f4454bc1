"""Runs cases of the REST API against a broker, a registry and a server, each a process of its own.

One server runs all cases. After each one, queries are terminated, streams and tables dropped, and topics deleted.
A pull query is repeated until its answer is the expected one, because a persistent query processes records meanwhile.
"""

from __future__ import annotations

import asyncio
import base64
import json
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any, Final, cast

from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from google.protobuf import text_format

from broker_cy.admin import AdminClient as OwnClient
from broker_cy.admin.produce import Producer
from broker_cy.storage.periodic import FIRST_RETENTION_CHECK_MS
from broker_cy.wire.records import Record as WireRecord
from broker_registry.schema_types.base import Kind
from broker_sql.errors import SqlError
from broker_streams.registry.remote import RemoteRegistry
from broker_streams.serdes.schemas.lookups import SchemaRegistry
from broker_streams.serdes.schemas.lookups import parse as parse_schema
from broker_streams.serdes.schemas.options import Options
from tests.broker_sql.query_tests.cases import Record
from tests.broker_sql.query_tests.comparing import matches
from tests.broker_sql.query_tests.engine import Engine, parsed
from tests.broker_sql.query_tests.outcome import Outcome
from tests.broker_sql.query_tests.rest_cases import RestCase
from tests.broker_sql.query_tests.running import in_window
from tests.support.broker import QUICK, BrokerProcess
from tests.support.registry import RegistryProcess
from tests.support.sql_server import Reply, SqlServerProcess

ANSWER_S: Final = 8.0
"""How long a query is repeated until its answer is the expected one."""
QUERY_S: Final = 15.0
"""How long a push query may wait for its last row."""
_EARLIEST: Final = {"auto.offset.reset": "earliest"}
_SETTINGS: Final = {
    "ksql.query.pull.table.scan.enabled": "true",
    "ksql.headers.columns.enabled": "true",
    "ksql.query.push.v2.enabled": "true",
    "ksql.query.push.v2.registry.installed": "true",
    "ksql.streams.commit.interval.ms": "100",
    # As in ksqlDB's harness: each change of a row is seen.
    "ksql.streams.statestore.cache.max.bytes": "0",
}
# Records of the cases are of 1970: a check of retention deletes them.
_BROKER: Final = {**QUICK, "log.retention.check.interval.ms": "86400000"}
CASE_S: Final = 8.0
"""Longer than nearly all cases: none of them begins so short before the first check of retention."""
_PROTECTED: Final = ("_", "__")


class Failed(Exception):
    """A case failed at a stage, with the reason."""

    def __init__(self, stage: str, reason: str) -> None:
        super().__init__(reason)
        self.stage = stage
        self.reason = reason


class Rig:
    """The three processes, and clients of them. `check_s` is when the broker first deletes old records."""

    def __init__(self, server: SqlServerProcess, registry: RegistryProcess, bootstrap: str, check_s: float) -> None:
        self.server, self.registry = server, registry
        self.bootstrap = bootstrap
        self.check_s = check_s
        self.admin = AdminClient({"bootstrap.servers": bootstrap})

    def answer(self, body: Mapping[str, Any]) -> Reply:
        """The answer to a query. Raises TimeoutError: it did not end."""
        request = urllib.request.Request(f"{self.server.url}/query", json.dumps(body).encode(), method="POST")
        try:
            with urllib.request.urlopen(request, timeout=QUERY_S) as found:
                return Reply(found.status, json.loads(found.read()))
        except urllib.error.HTTPError as error:
            return Reply(error.code, json.loads(error.read()))

    def schemas(self) -> SchemaRegistry:
        """A client that knows nothing of earlier cases."""
        return RemoteRegistry({"schema.registry.url": self.registry.url}, Options.of({}))


@contextmanager
def rig(directory: Path) -> Iterator[Rig]:
    broker = BrokerProcess(directory, _BROKER)
    try:
        broker.start()
        check_s = time.monotonic() + FIRST_RETENTION_CHECK_MS / 1000
        registry = RegistryProcess(broker.bootstrap, directory)
        try:
            registry.wait()
            # Streams of several cases have one name, and different columns.
            registry.call("PUT", "/config", {"compatibility": "NONE"})
            file = directory / "ksql-server.properties"
            settings = {**_SETTINGS, "ksql.schema.registry.url": registry.url}
            file.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
            server = SqlServerProcess(broker.bootstrap, directory, [str(file)])
            try:
                yield Rig(server.wait(), registry, broker.bootstrap, check_s)
            finally:
                server.kill()
        finally:
            registry.kill()
    finally:
        broker.close()


def run(case: RestCase, at: Rig) -> Outcome:
    before_s = at.check_s - time.monotonic()
    if -1 < before_s < CASE_S:
        time.sleep(before_s + 1)
    try:
        _Run(case, at).run()
    except Failed as failed:
        return Outcome(case.case.file, case.name, failed.stage, failed.reason)
    except Exception as error:
        return Outcome(case.case.file, case.name, "crash", f"{type(error).__name__}: {error}")
    finally:
        _clean(at)
    return Outcome(case.case.file, case.name, "passed", "")


class _Run:
    def __init__(self, case: RestCase, at: Rig) -> None:
        self.case, self.at = case, at
        # A catalog of our own tells formats and columns of topics.
        self.engine = Engine(case.case)
        self.properties = {**_EARLIEST, **case.case.properties}

    def run(self) -> None:
        self._create_topics()
        answers = self._admin()
        if answers is None:
            return
        self._learn()
        if not self.case.waits:
            self._produce()
        expected = [each for each in self.case.responses if "queryProto" not in each]
        self._check_admin(answers, expected[: len(self.case.admin)])
        self._queries(expected[len(self.case.admin) :])
        messages = [each["queryProto"] for each in self.case.responses if "queryProto" in each]
        for text, wanted in zip(self.case.queries, messages, strict=False):
            self._check_messages(text, wanted)
        self._check_outputs()

    def _create_topics(self) -> None:
        topics = [NewTopic(name, count, 1) for name, count in self.engine.partitions.items()]
        for future in self.at.admin.create_topics(topics).values():
            future.result(30)
        for topic in self.case.case.topics:
            for part in ("key", "value"):
                self._register(topic, part)

    def _register(self, topic: Mapping[str, Any], part: str) -> None:
        schema = topic.get(f"{part}Schema")
        if schema is None:
            return
        kind = (topic.get(f"{part}Format") or "AVRO").upper()
        more: dict[str, Any] = {"schemaType": {"JSON_SR": "JSON"}.get(kind, kind)}
        for each in topic.get(f"{part}SchemaReferences") or ():
            self.at.registry.register(each["name"], each["schema"], schemaType=kind)
            more.setdefault("references", []).append({"name": each["name"], "subject": each["name"], "version": 1})
        schema_id = topic.get(f"{part}SchemaId")
        subject = f"{topic['name']}-{part}"
        if schema_id is not None:
            self.at.registry.call("PUT", f"/mode/{subject}?force=true", {"mode": "IMPORT"})
            more |= {"id": schema_id, "version": 1}
        text = schema if isinstance(schema, str) else json.dumps(schema, default=str)
        reply = self.at.registry.register(subject, text, **more)
        if schema_id is not None:
            self.at.registry.call("PUT", f"/mode/{subject}?force=true", {"mode": "READWRITE"})
        if reply.status != 200:
            raise Failed("topics", f"the registry refuses the schema of {subject}: {reply.body}")

    def _admin(self) -> list[Any] | None:
        """The answers to the statements; None: they failed, as the case expects."""
        body = {"ksql": "\n".join(self.case.admin), "streamsProperties": self.properties}
        reply = self.at.server.call("POST", "/ksql", body)
        if reply.status == 200:
            return list(reply.body)
        self._check_error(reply.status, reply.body)
        return None

    def _check_error(self, status: int, body: Any) -> None:
        if self.case.error is None:
            raise Failed("error", f"{status}: {_text(body)}")
        wanted = self.case.error.get("status", 400)
        if status != wanted:
            raise Failed("error", f"status {status}, {wanted} is expected: {_text(body)}")

    def _learn(self) -> None:
        for text in self.case.admin:
            try:
                for statement in parsed(text):
                    self.engine.execute(statement)
            except SqlError as error:
                raise Failed("plan", str(error)) from None

    def _produce(self) -> None:
        registry = self.at.schemas()
        made: list[tuple[str, WireRecord]] = []
        for record in self.case.case.inputs:
            source = self.engine.source_of(record.topic)
            if source is None:
                raise Failed("inputs", f"no stream or table has topic {record.topic}")
            key, value = (
                side.encode(each)
                for side, each in zip(self.engine.sides(source, registry), (record.key, record.value), strict=True)
            )
            key, time_ms = in_window(record, key, source), record.timestamp or 0
            made.append((record.topic, WireRecord(timestamp=time_ms, key=key, value=value, headers=record.headers)))
        # librdkafka has no record of the time 0.
        asyncio.run(_sent(self.at.bootstrap, made))

    # ------------------------------------------------------------------------------------------------ answers

    def _check_admin(self, answers: list[Any], expected: list[Mapping[str, Any]]) -> None:
        if len(answers) < len(expected):
            raise Failed("admin", f"{len(expected)} answers are expected: {_text(answers)}")
        for index, wanted in enumerate(expected):
            if "admin" not in wanted:
                return
            problem = _problem(answers[index], wanted["admin"])
            if problem:
                raise Failed("admin", problem)

    def _queries(self, expected: list[Mapping[str, Any]]) -> None:
        for index, text in enumerate(self.case.queries):
            wanted = expected[index]["query"] if index < len(expected) else None
            deadline_s = time.monotonic() + ANSWER_S
            while True:
                problem = self._query(text, wanted)
                if problem is None:
                    break
                once = " EMIT " in text.upper() or self.case.error is not None
                if once or time.monotonic() > deadline_s:
                    raise Failed("query", f"{problem}\n{text}")
                time.sleep(0.1)
        if self.case.error is not None and not self.case.queries:
            raise Failed("error", f"an error is expected: {self.case.error.get('message')}")

    def _query(self, text: str, wanted: list[Any] | None) -> str | None:
        """The difference between the answer and the expected one; None: there is none."""
        if self.case.waits:
            threading.Timer(1.0, self._produce).start()
        body = {"ksql": text, "streamsProperties": self.properties}
        reply = self.at.answer(body)
        if reply.status != 200:
            self._check_error(reply.status, reply.body)
            return None
        if self.case.error is not None:
            return f"an error is expected: {self.case.error.get('message')}"
        if wanted is None:
            return None
        rows = [each for each in reply.body if each] if isinstance(reply.body, list) else [reply.body]
        return _rows_problem(rows, wanted)

    def _check_messages(self, text: str, wanted: list[Any]) -> None:
        """The answer in Protobuf: the schema, and the rows as the text form of their messages."""
        body = {"sql": text, "properties": self.properties}
        reply = self.at.server.call("POST", "/query-stream", body, {"Accept": "application/vnd.ksql.v1+protobuf"})
        if reply.status != 200:
            raise Failed("proto", f"{reply.status}: {_text(reply.body)}")
        schema = reply.body[0]["header"]["protoSchema"]
        if schema != wanted[0]["header"]["protoSchema"]:
            raise Failed("proto", f"schema {schema}, {wanted[0]['header']['protoSchema']} is expected")
        parsed_schema = parse_schema(Kind.PROTOBUF, schema)
        kind = cast("Any", parsed_schema).records.class_of("ConnectDefault1")
        found = [base64.b64decode(each["row"]["protobufBytes"]) for each in reply.body if "row" in each]
        texts = sorted(text_format.MessageToString(kind.FromString(each)) for each in found)
        expected = sorted(each["row"] for each in wanted if "row" in each)
        if texts != expected:
            raise Failed("proto", f"rows {texts}, {expected} are expected")
        ends = [[each for each in rows if "finalMessage" in each] for rows in (reply.body, wanted)]
        if ends[0] != ends[1]:
            raise Failed("proto", f"end {ends[0]}, {ends[1]} is expected")

    def _check_outputs(self) -> None:
        by_topic: dict[str, list[Record]] = {}
        for record in self.case.case.outputs:
            by_topic.setdefault(record.topic, []).append(record)
        registry = self.at.schemas()
        for topic, wanted in by_topic.items():
            source = self.engine.source_of(topic)
            if source is None:
                raise Failed("outputs", f"no stream or table has topic {topic}")
            sides = self.engine.sides(source, registry)
            found = self._consume(topic, len(wanted))
            if len(found) < len(wanted):
                raise Failed("outputs", f"{len(found)} records of {topic}, {len(wanted)} are expected")
            for (key, value, timestamp), expected in zip(found, wanted, strict=False):
                actual = sides[0].decode(key), sides[1].decode(value)
                if not (matches(actual[0], expected.key) and matches(actual[1], expected.value)):
                    raise Failed("outputs", f"{actual}, {(expected.key, expected.value)} is expected")
                if expected.timestamp is not None and timestamp != expected.timestamp:
                    raise Failed("outputs", f"timestamp {timestamp}, {expected.timestamp} is expected")

    def _consume(self, topic: str, count: int) -> list[tuple[bytes | None, bytes | None, int]]:
        consumer = Consumer(
            {"bootstrap.servers": self.at.bootstrap, "group.id": "rest-tests", "enable.auto.commit": False}
        )
        try:
            partitions = consumer.list_topics(topic, 10).topics[topic].partitions
            consumer.assign([TopicPartition(topic, each, 0) for each in partitions])
            found: list[tuple[bytes | None, bytes | None, int]] = []
            deadline_s = time.monotonic() + ANSWER_S
            while len(found) < count and time.monotonic() < deadline_s:
                message = consumer.poll(0.2)
                if message is not None and message.error() is None:
                    found.append((message.key(), message.value(), message.timestamp()[1]))
            return found
        finally:
            consumer.close()


async def _sent(bootstrap: str, records: list[tuple[str, WireRecord]]) -> None:
    async with OwnClient(bootstrap) as client:
        producer = Producer(client.caller)
        for topic, record in records:
            await producer.send(topic, [record])


def _rows_problem(rows: list[Any], wanted: list[Any]) -> str | None:
    if len(rows) != len(wanted):
        return f"{len(rows)} rows, {len(wanted)} are expected: {_text(rows)} for {_text(wanted)}"
    # Rows of a query have no order that a case expects.
    found = [each["row"].get("columns") for each in rows if "row" in each]
    for each in wanted:
        columns = each.get("row", {}).get("columns")
        if columns is not None:
            index = next((at for at, row in enumerate(found) if _same(row, columns)), None)
            if index is None:
                return f"row {_text(columns)} is missing: {_text(found)}"
            del found[index]
    for each, other in zip(rows, wanted, strict=True):
        if "row" not in other or "row" not in each:
            problem = _problem(each, other)
            if problem:
                return problem
        elif other["row"].get("tombstone") and not each["row"].get("tombstone"):
            return f"no tombstone: {_text(each)}"
    return None


def _problem(actual: Any, wanted: Mapping[str, Any], path: str = "") -> str | None:
    """The first member of the expected answer that the answer does not have. It may have more."""
    for key, expected in wanted.items():
        name, _, operator = key.partition("|")
        if not isinstance(actual, dict) or name not in actual:
            return f"{path}/{name} is missing: {_text(actual)}"
        found = actual[name]
        if isinstance(expected, dict):
            problem = _problem(found, expected, f"{path}/{name}")
            if problem:
                return problem
        elif operator == "starts_with":
            if not str(found).startswith(expected):
                return f"{path}/{name} is {_text(found)}, {expected}... is expected"
        elif not _same(found, expected):
            return f"{path}/{name} is {_text(found)}, {_text(expected)} is expected"
    return None


def _same(actual: Any, expected: Any) -> bool:
    if isinstance(expected, list):
        return isinstance(actual, list) and len(actual) == len(expected) and all(map(_same, actual, expected))
    if isinstance(expected, dict):
        return (
            isinstance(actual, dict)
            and set(actual) == set(expected)
            and all(_same(actual[name], each) for name, each in expected.items())
        )
    if isinstance(expected, Decimal) and isinstance(actual, int | float) and not isinstance(actual, bool):
        return float(expected) == float(actual)
    return type(actual) is type(expected) and bool(actual == expected)


def _text(value: Any) -> str:
    text = json.dumps(value, default=str) if not isinstance(value, bytes) else repr(value)
    return text if len(text) <= 600 else f"{text[:597]}..."


def _clean(at: Rig) -> None:
    """Let the next case begin without queries, streams, tables, types and topics."""
    at.server.call("POST", "/ksql", {"ksql": "TERMINATE ALL;"})
    for _ in range(20):
        names = [
            (kind, each["name"])
            for kind, text, member in (("TABLE", "LIST TABLES;", "tables"), ("STREAM", "LIST STREAMS;", "streams"))
            for each in at.server.run(text)[0][member]
        ]
        if not names:
            break
        for kind, name in names:
            at.server.call("POST", "/ksql", {"ksql": f"DROP {kind} `{name}`;"})
    for name in at.server.run("LIST TYPES;")[0].get("types", {}):
        at.server.call("POST", "/ksql", {"ksql": f"DROP TYPE `{name}`;"})
    topics = [name for name in at.admin.list_topics(timeout=30).topics if not name.startswith(_PROTECTED)]
    if topics:
        for future in at.admin.delete_topics(topics).values():
            future.result(30)
