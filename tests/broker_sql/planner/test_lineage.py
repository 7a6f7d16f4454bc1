"""The lineage of columns through queries: without declarations it would end at the first compiled expression."""

from __future__ import annotations

from broker_streams.plan.lineage.columns import Use
from broker_streams.plan.lineage.of_plan import lineage_of
from tests.broker_sql.planner.case_files import Session

SOURCES = """
CREATE STREAM l (id INT KEY, a STRING, x INT) WITH (kafka_topic='l', value_format='JSON');
CREATE TABLE r (id INT PRIMARY KEY, b STRING) WITH (kafka_topic='r', value_format='JSON');
"""


def columns(statement: str) -> dict[str, list[str]]:
    """Columns of the result, and what they come from; "records" are what decides about rows."""
    planned = Session().run(SOURCES + statement)
    assert planned.topology is not None
    found = lineage_of(planned.topology.plan)
    assert not found.opaque
    (output,) = found.outputs
    shown = {
        ".".join((each.column.part, *each.column.path)): [
            str(origin.column) + ("" if origin.use is Use.IDENTITY else f" {origin.use.value}")
            for origin in each.origins
        ]
        for each in output.columns
    }
    return shown | {"records": [f"{each.column} {each.use.value}" for each in output.decided_by]}


def test_columns_of_a_join_come_from_both_sides() -> None:
    found = columns("CREATE STREAM j AS SELECT l.id, a, UCASE(b) + a AS c FROM l JOIN r ON l.id = r.id WHERE x > 3;")
    assert found["value.A"] == ["l.value.A"]
    assert found["value.C"] == ["l.value.A TRANSFORMATION", "r.value.B TRANSFORMATION"]
    assert "l.value.X FILTER" in found["records"]
    assert {"l.key JOIN", "r.key JOIN"} <= set(found["records"])


def test_columns_of_an_aggregation_in_windows() -> None:
    found = columns(
        "CREATE TABLE t WITH (key_format='JSON') AS SELECT a, x + 1 AS y, SUM(x * 2) AS total, WINDOWSTART AS s FROM l"
        " WINDOW TUMBLING (SIZE 1 SECOND) GROUP BY a, x + 1;"
    )
    assert found["key.key.A"] == ["l.value.A"]
    assert found["key.key.Y"] == ["l.value.X TRANSFORMATION"]
    assert found["value.TOTAL"] == ["l.value.X AGGREGATION"]
    assert found["value.S"] == ["l.timestamp TRANSFORMATION"]


def test_a_key_that_PARTITION_BY_makes_and_values_of_table_functions() -> None:
    found = columns("CREATE STREAM p AS SELECT a, id, EXPLODE(ARRAY[x, x + 1]) AS each FROM l PARTITION BY a;")
    assert found["key.A"] == ["l.value.A"]
    assert found["value.ID"] == ["l.key.ID"]
    assert found["value.EACH"] == ["l.value.X TRANSFORMATION"]


def test_a_table_that_is_grouped() -> None:
    found = columns("CREATE TABLE t AS SELECT b, COUNT(*) AS count FROM r GROUP BY b HAVING COUNT(*) > 1;")
    assert found["key.B"] == ["r.value.B"]
    assert "r.value.B GROUP_BY" in found["records"]


def test_sides_of_a_right_join_keep_their_columns() -> None:
    more = "CREATE STREAM m (id INT KEY, b STRING) WITH (kafka_topic='m', value_format='JSON');"
    joined = "SELECT m.id AS id, a, b FROM l RIGHT JOIN m WITHIN 1 SECOND ON l.id = m.id;"
    found = columns(f"{more} CREATE STREAM j AS {joined}")
    assert found["value.A"] == ["l.value.A"]
    assert found["value.B"] == ["m.value.B"]
