"""Runs a case: its statements, its records, and a comparison of what was written with what the case expects.

As ksqlDB's harness does it: each query runs on its own, in the order of statements. It gets the case's records of its
sources, and of sources without such records what earlier queries and INSERT VALUES wrote. A case that expects an error
passes if its last statement fails with an error for users, or a query fails while it runs. Texts of errors are ours, so
they are not compared.
"""

from __future__ import annotations

import traceback
from collections.abc import Sequence
from typing import Any, Final

from broker_sql.catalog import SourceInfo
from broker_sql.errors import SqlError
from broker_sql.planner import Planned
from broker_streams.kernel.errors import StreamsError
from broker_streams.records import Window, Windowed
from broker_streams.serdes import SerdeError
from broker_streams.serdes.windowed import SessionWindowedSerde, TimeWindowedSerde
from broker_streams.testing.topology_test_driver import TopologyTestDriver
from tests.broker_sql.query_tests.cases import Case, Record
from tests.broker_sql.query_tests.comparing import matches
from tests.broker_sql.query_tests.engine import SERVICE_ID, URL, Engine, Stored, parsed
from tests.broker_sql.query_tests.outcome import Outcome
from tests.broker_sql.query_tests.posts import check_posts
from tests.broker_sql.query_tests.spec import Side, SpecError

_CONFIG: Final = {
    "deserialization.exception.handler": "org.apache.kafka.streams.errors.LogAndContinueExceptionHandler",
    "schema.registry.url": URL,
    "statestore.cache.max.bytes": 0,
}


class Stopped(Exception):
    """A case ended at a stage, with the reason."""

    def __init__(self, stage: str, reason: str) -> None:
        super().__init__(reason)
        self.stage = stage
        self.reason = reason


def run(case: Case, *, only: str | None = None) -> Outcome:
    """Return the outcome of a case. `only` is the stage to end after: parse, plan."""
    try:
        if only == "parse":
            parse(case)
        else:
            _run(case, plans_only=only == "plan")
    except Stopped as stopped:
        return Outcome(case.file, case.name, stopped.stage, stopped.reason)
    return Outcome(case.file, case.name, "passed", "")


def parse(case: Case) -> None:
    """Parse all statements. Raises Stopped: an error although the case expects none."""
    for text in case.statements:
        try:
            parsed(text)
        except SqlError as error:
            if case.error is None:
                raise Stopped("parse", f"{error}\n{text}") from None
        except Exception as error:
            raise Stopped("parse", described(error)) from None


def _run(case: Case, *, plans_only: bool) -> None:
    try:
        engine = Engine(case)
    except (SerdeError, ValueError) as error:
        raise Stopped("topics", described(error)) from None
    if _execute(case, engine) or plans_only:
        return
    if case.error is not None and not case.inputs:
        raise Stopped("plan", f"an error is expected: {case.error.get('message')}")
    if not engine.queries:
        raise Stopped("plan", "no query was made")
    try:
        _process(case, engine)
    except StreamsError as error:
        if case.error is None:
            raise Stopped("run", described(error.__cause__ or error)) from None
        return
    except Stopped:
        raise
    except Exception as error:
        raise Stopped("run", described(error)) from None
    if case.error is not None:
        raise Stopped("run", f"an error is expected: {case.error.get('message')}")
    _compare(case, engine)
    check_posts(case, engine, Stopped)


def _execute(case: Case, engine: Engine) -> bool:
    """Execute all statements; return whether the last one failed, as the case expects."""
    for index, text in enumerate(case.statements):
        is_last = index == len(case.statements) - 1
        try:
            for statement in parsed(text):
                engine.execute(statement)
        except SqlError as error:
            if case.error is not None and is_last:
                return True
            raise Stopped("plan", f"{error}\n{text}") from None
        except Exception as error:
            raise Stopped("plan", f"{described(error)}\n{text}") from None
    return False


def described(error: BaseException) -> str:
    """An error that is no SqlError: its type, text and the innermost place in the project."""
    frames = [each for each in traceback.extract_tb(error.__traceback__) if "broker_" in each.filename]
    place = f" at {frames[-1].filename.rpartition('/')[2]}:{frames[-1].lineno}" if frames else ""
    first = (str(error).splitlines() or [""])[0]
    return f"{type(error).__name__}: {first}{place}"


# ------------------------------------------------------------------------------------------------ records


def _process(case: Case, engine: Engine) -> None:
    given = [(record, _stored(record, engine)) for record in case.inputs]
    for record, stored in given:
        engine.topics.setdefault(record.topic, []).append(stored)
    with_inputs = {record.topic for record in case.inputs}
    for planned in engine.queries.values():
        _run_query(planned, engine, [(record.topic, stored) for record, stored in given], with_inputs)


def _run_query(planned: Planned, engine: Engine, given: Sequence[tuple[str, Stored]], with_inputs: set[str]) -> None:
    assert planned.topology is not None
    assert planned.analysis is not None
    sources = list(dict.fromkeys(each.info.topic for each in planned.analysis.sources))
    streams = {
        name.removeprefix("ksql.streams."): value
        for name, value in engine.case.properties.items()
        if name.startswith("ksql.streams.")
    }
    config = {**_CONFIG, **streams, "application.id": f"_confluent-ksql-{SERVICE_ID}query_{planned.query_id}"}
    with TopologyTestDriver(planned.topology, config) as driver:
        for topic, stored in given:
            if topic in sources:
                _pipe(driver, topic, stored, engine)
        for topic in sources:
            if topic not in with_inputs:
                for stored in list(engine.topics.get(topic, ())):
                    _pipe(driver, topic, stored, engine)


def _pipe(driver: TopologyTestDriver, topic: str, stored: Stored, engine: Engine) -> None:
    before = len(driver.produced)
    driver.pipe_raw(topic, *stored)
    for target, _, key, value, timestamp, headers in driver.produced[before:]:
        engine.topics.setdefault(target, []).append((key, value, timestamp, tuple(headers)))


def _stored(record: Record, engine: Engine) -> Stored:
    source = engine.source_of(record.topic)
    if source is None:
        raise Stopped("run", f"no stream or table has topic {record.topic}")
    key_side, value_side = engine.sides(source)
    try:
        key, value = key_side.encode(record.key), value_side.encode(record.value)
    except SpecError as error:
        raise Stopped("run", str(error)) from None
    return in_window(record, key, source), value, record.timestamp or 0, record.headers


def in_window(record: Record, key: bytes | None, source: SourceInfo) -> bytes | None:
    """The key with the window of a record, if keys of the source are in windows."""
    if source.window is None or key is None:
        return key
    start, end, kind = record.window or (0, 0, "TIME")
    serde = SessionWindowedSerde(_Raw()) if kind == "SESSION" else TimeWindowedSerde(_Raw())
    return serde.serialize(record.topic, Windowed(key, Window(start, end)))


class _Raw:
    """Bytes as they are."""

    name = "RAW"

    def serialize(self, topic: str, value: Any, headers: Any = ()) -> bytes | None:
        return value  # type: ignore[no-any-return]  # bytes

    def deserialize(self, topic: str, data: bytes | None, headers: Any = ()) -> Any:
        return data


# ------------------------------------------------------------------------------------------------ comparison


def _compare(case: Case, engine: Engine) -> None:
    expected: dict[str, list[Record]] = {}
    for record in case.outputs:
        expected.setdefault(record.topic, []).append(record)
    for topic, records in expected.items():
        source = engine.source_of(topic)
        if source is None:
            raise Stopped("compare", f"no stream or table has topic {topic}")
        sides = engine.sides(source)
        size_ms = None if source.window is None else source.window.size_ms
        try:
            written = engine.topics.get(topic, [])
            actual = [_read(stored, sides, source.window is not None, size_ms) for stored in written]
        except SpecError as error:
            raise Stopped("compare", str(error)) from None
        if len(actual) != len(records):
            shown = "\n".join(f"  {each}" for each in actual)
            errors = f"\nerrors: {engine.errors[:3]}" if engine.errors else ""
            counts = f"{len(records)} records are expected, {len(actual)} were written"
            raise Stopped("compare", f"{counts}:\n{shown}{errors}")
        for index, (wanted, found) in enumerate(zip(records, actual, strict=True)):
            problem = _difference(wanted, found, has_inputs=bool(case.inputs))
            if problem is not None:
                raise Stopped("compare", f"{problem} differs, record {index}:\n  {found}\n  {wanted}")


def _read(stored: Stored, sides: tuple[Side, Side], is_windowed: bool, size_ms: int | None) -> Record:
    key, value, timestamp, headers = stored
    window = None
    if is_windowed and key is not None:
        kind = "SESSION" if size_ms is None else "TIME"
        serde = SessionWindowedSerde(_Raw()) if size_ms is None else TimeWindowedSerde(_Raw(), size_ms)
        found = serde.deserialize("", key)
        assert found is not None
        key, window = found[0], (found[1][0], found[1][1], kind)
    return Record("", sides[0].decode(key), sides[1].decode(value), timestamp, window, headers)


def _difference(wanted: Record, found: Record, *, has_inputs: bool) -> str | None:
    """The part of a record that is not the expected one. Times of INSERT VALUES are those of the clock."""
    if wanted.window is not None and wanted.window != found.window:
        return "window"
    if not matches(found.key, wanted.key):
        return "key"
    if not matches(found.value, wanted.value):
        return "value"
    if wanted.headers != tuple(found.headers):
        return "headers"
    time = wanted.timestamp
    if time is not None and time != found.timestamp and (has_inputs or time != 0):
        return "timestamp"
    return None
