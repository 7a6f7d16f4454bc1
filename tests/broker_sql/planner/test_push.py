"""Queries whose rows go to a client."""

from __future__ import annotations

from typing import Any

import pytest

from broker_sql.dialect import parse
from broker_sql.errors import AnalysisError
from broker_sql.planner import Planned, plan
from broker_streams.testing.topology_test_driver import TopologyTestDriver
from tests.broker_sql.planner.case_files import CaseRecord, Session

SOURCES = """
CREATE STREAM s (id INT KEY, a STRING, x INT) WITH (kafka_topic='s', value_format='JSON');
CREATE TABLE t (id INT PRIMARY KEY, x INT) WITH (kafka_topic='t', value_format='JSON');
CREATE TABLE w (id INT PRIMARY KEY, x INT) WITH (kafka_topic='w', value_format='JSON', window_type='TUMBLING',
  window_size='1 SECOND');
"""


def answers(query: str, *records: CaseRecord) -> list[tuple[tuple[Any, ...], bool]]:
    """The rows of a query, each with whether it was deleted."""
    session = Session()
    session.run(SOURCES)
    found: list[tuple[tuple[Any, ...], bool]] = []
    (statement,) = parse(query)
    planned: Planned = plan(statement, session.catalog, session.settings, lambda row, gone: found.append((row, gone)))
    assert planned.topology is not None
    assert planned.changes == ()
    with TopologyTestDriver(planned.topology, {"statestore.cache.max.bytes": 0}) as driver:
        for each in records:
            driver.pipe_raw(each.topic, *session.encoded(each), each.at)
    return found


def test_columns_come_in_the_order_of_select_and_the_key_may_be_missing() -> None:
    record = CaseRecord("s", [1], ["tea", 3], at=7)
    assert answers("SELECT x, ROWTIME, id FROM s EMIT CHANGES;", record) == [((3, 7, 1), False)]
    assert answers("SELECT a FROM s EMIT CHANGES;", record) == [(("tea",), False)]


def test_a_deleted_row_has_its_key_and_window() -> None:
    rows = CaseRecord("t", [1], [3]), CaseRecord("t", [1], None)
    assert answers("SELECT x, id FROM t EMIT CHANGES;", *rows) == [((3, 1), False), ((None, 1), True)]
    rows = CaseRecord("w", [1], [3], window=(0, 1000)), CaseRecord("w", [1], None, window=(0, 1000))
    found = answers("SELECT * FROM w EMIT CHANGES;", *rows)
    assert found == [((1, 0, 1000, 3), False), ((1, 0, 1000, None), True)]


def test_a_record_without_value_is_no_row_of_a_stream() -> None:
    assert answers("SELECT * FROM s EMIT CHANGES;", CaseRecord("s", [1], None)) == []


def test_all_rows_are_one_group_without_GROUP_BY() -> None:
    rows = CaseRecord("s", [1], ["tea", 3]), CaseRecord("s", [2], ["milk", 4])
    assert answers("SELECT SUM(x), COUNT(*) FROM s EMIT CHANGES;", *rows) == [((3, 1), False), ((7, 2), False)]


def test_tables_in_windows_have_no_foreign_keys() -> None:
    query = "SELECT * FROM w JOIN w2 ON w.x = w2.id EMIT CHANGES;"
    session = Session()
    session.run(SOURCES + SOURCES[SOURCES.index("CREATE TABLE w") :].replace("TABLE w", "TABLE w2"))
    with pytest.raises(AnalysisError, match="not possible for tables in windows"):
        session.run(query)


def test_groups_of_a_query_for_a_client() -> None:
    rows = CaseRecord("s", [1], ["tea", 3]), CaseRecord("s", [2], ["milk", 4])
    assert answers("SELECT a, SUM(x) FROM s GROUP BY a EMIT CHANGES;", *rows) == [
        (("tea", 3), False),
        (("milk", 4), False),
    ]
