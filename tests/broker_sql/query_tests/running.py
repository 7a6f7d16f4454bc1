"""Runs a case: its statements, its records, and a comparison of what was written with what the case expects."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Final

from broker_sql.analysis.settings import Settings
from broker_sql.catalog import Catalog, SourceInfo
from broker_sql.dialect import parse
from broker_sql.errors import SqlError
from broker_sql.functions import standard
from broker_sql.planner import Planned, plan
from broker_sql.statements import InsertValues, Statement
from broker_streams.testing.topology_test_driver import TopologyTestDriver
from tests.broker_sql.query_tests.cases import Case
from tests.broker_sql.query_tests.outcome import Outcome
from tests.broker_sql.query_tests.records import Codec, differences

_FUNCTIONS: Final = standard()


class Stopped(Exception):
    """A case ended at a stage, with the reason."""

    def __init__(self, stage: str, reason: str) -> None:
        super().__init__(reason)
        self.stage = stage
        self.reason = reason


def run(case: Case, *, only: str | None = None) -> Outcome:
    """Return the outcome of a case. `only` is the stage to end after: parse or plan."""
    try:
        _Run(case).run(only)
    except Stopped as stopped:
        return Outcome(case.file, case.name, stopped.stage, stopped.reason)
    return Outcome(case.file, case.name, "passed", "")


class _Run:
    def __init__(self, case: Case) -> None:
        self._case = case
        self._catalog = Catalog()
        self._settings = Settings(_FUNCTIONS, {"ksql.service.id": "some.ksql.service.id", **case.properties})
        self._planned: list[Planned] = []

    def run(self, only: str | None) -> None:
        failed = self._failure(only)
        expected = self._case.error
        if expected is not None:
            if failed is None and only is None:
                raise Stopped("compare", f"no error; expected: {expected.get('message')}")
            return
        if failed is not None:
            raise failed

    def _failure(self, only: str | None) -> Stopped | None:
        """The first error of the case, where an error of the text is one that a case may expect."""
        try:
            statements = list(self._parsed())
            if only == "parse":
                return None
            for each in statements:
                self._plan(each)
            if only == "plan":
                return None
            self._run_records()
        except Stopped as stopped:
            if self._case.error is not None and stopped.stage in ("crash", "compare"):
                raise
            return stopped
        return None

    def _parsed(self) -> Iterator[Statement]:
        for text in self._case.statements:
            try:
                yield from parse(text)
            except SqlError as error:
                raise Stopped("parse", f"{error}\n{text}") from None
            except Exception as error:
                raise Stopped("crash", f"parse: {described(error)}\n{text}") from error

    def _plan(self, statement: Statement) -> None:
        if isinstance(statement, InsertValues):
            raise Stopped("plan", "INSERT VALUES is not run yet")
        try:
            planned = plan(statement, self._catalog, self._settings)
        except SqlError as error:
            raise Stopped("plan", f"{error}\n{statement.text}") from error
        except Exception as error:
            raise Stopped("crash", f"plan: {described(error)}\n{statement.text}") from error
        self._catalog = self._catalog.apply_all(planned.changes)
        if planned.topology is not None:
            self._planned.append(planned)

    def _run_records(self) -> None:
        case = self._case
        codec = Codec(self._sources_of_topics())
        # As in ksqlDB's tests, each change of a row is seen.
        config: dict[str, Any] = {"statestore.cache.max.bytes": 0} | {
            name.removeprefix("ksql.streams."): value
            for name, value in case.properties.items()
            if name.startswith("ksql.streams.")
        }
        drivers: list[TopologyTestDriver] = []
        written: dict[str, list[Any]] = {}
        try:
            for each in self._planned:
                application = f"_confluent-ksql-some.ksql.service.idquery_{each.query_id}"
                assert each.topology is not None
                drivers.append(TopologyTestDriver(each.topology, {**config, "application.id": application}))
            self._pipe(drivers, codec, written)
        except Stopped:
            raise
        except Exception as error:
            raise Stopped("run", described(error)) from error
        finally:
            for driver in drivers:
                with suppress(Exception):
                    driver.close()
        found = list(differences(case, codec, written))
        if found:
            raise Stopped("compare", found[0])

    def _sources_of_topics(self) -> dict[str, SourceInfo]:
        return {each.topic: each for each in self._catalog.sources.values()}

    def _pipe(self, drivers: list[TopologyTestDriver], codec: Codec, written: dict[str, list[Any]]) -> None:
        """Records go to all queries that read their topic, and from their sinks on."""
        seen = [0] * len(drivers)

        def give(topic: str, key: bytes | None, value: bytes | None, timestamp: int, headers: Any) -> None:
            written.setdefault(topic, []).append((key, value, timestamp, headers))
            for number, planned in enumerate(self._planned):
                assert planned.analysis is not None
                if topic not in {each.info.topic for each in planned.analysis.sources}:
                    continue
                driver = drivers[number]
                driver.pipe_raw(topic, key, value, timestamp, headers)
                pass_on(number)

        def pass_on(number: int) -> None:
            driver, planned = drivers[number], self._planned[number]
            assert planned.sink is not None
            while seen[number] < len(driver.produced):
                topic, _, key, value, timestamp, headers = driver.produced[seen[number]]
                seen[number] += 1
                if topic == planned.sink.topic:
                    give(topic, key, value, timestamp, headers)

        for each in self._case.inputs:
            key, value = codec.encoded(each)
            give(each.topic, key, value, each.timestamp or 0, each.headers)


def described(error: BaseException) -> str:
    """An error that is no SqlError: its type, text and the innermost place in the project."""
    while error.__cause__ is not None:
        error = error.__cause__
    frames = [each for each in traceback.extract_tb(error.__traceback__) if "/broker_" in each.filename]
    place = f" at {frames[-1].filename.rpartition('/')[2]}:{frames[-1].lineno}" if frames else ""
    first = (str(error).splitlines() or [""])[0]
    return f"{type(error).__name__}: {first}{place}"
