"""Large statements: they are planned, or refused by an error of the text."""

from __future__ import annotations

import pytest

from broker_sql.errors import AnalysisError, ParseError
from tests.broker_sql.planner.case_files import CaseRecord, Session

SOURCE = "CREATE STREAM s (id INT KEY, a INT) WITH (kafka_topic='s', value_format='JSON');"


def test_a_case_with_many_branches() -> None:
    """If this fails, a mapping of codes ends the planner: Python allows 100 levels of indentation."""
    branches = " ".join(f"WHEN a = {n} THEN {n * 2}" for n in range(300))
    session = Session()
    session.run(f"{SOURCE} CREATE STREAM x AS SELECT id, CASE {branches} ELSE -1 END AS v FROM s;")
    records = session.records([CaseRecord("s", [1], [value]) for value in (0, 299, 300)])
    assert [each.value for each in records] == [[0], [598], [-1]]


def test_an_expression_that_nests_too_deep_is_refused() -> None:
    nested = "ABS(" * 60 + "a" + ")" * 60
    with pytest.raises(AnalysisError, match=r"line 1:.*nests too deep"):
        Session().run(f"{SOURCE} CREATE STREAM x AS SELECT id, {nested} AS v FROM s;")


def test_a_number_without_its_exponent_is_refused() -> None:
    with pytest.raises(ParseError, match="1e is no number"):
        Session().run(f"{SOURCE} CREATE STREAM x AS SELECT id, a + 1e FROM s;")
