"""CREATE FUNCTION in Python: the text, its place in the catalog, and its use by queries."""

from __future__ import annotations

import pytest

from broker_sql.analysis.functions import registry
from broker_sql.analysis.query import analyse
from broker_sql.dialect import parse, to_text
from broker_sql.errors import ParseError, SqlError
from broker_sql.functions.registry import FunctionRegistry
from broker_sql.statements import CreateFunction, Query
from broker_sql.types import INTEGER, STRING
from tests.broker_sql.planner.case_files import CaseRecord, Session

ON = {"ksql.functions.python.enabled": "true"}
TWICE = "CREATE FUNCTION twice(n INT) RETURNS INT LANGUAGE PYTHON AS $$ n * 2 $$;"
STREAM = "CREATE STREAM s (id INT KEY, n INT) WITH (kafka_topic='s', value_format='JSON');"


def refused(session: Session, text: str) -> str:
    with pytest.raises(SqlError) as caught:
        session.run(text)
    return caught.value.message


def test_a_function_is_used_by_a_query() -> None:
    session = Session(ON)
    session.run(STREAM + TWICE + "CREATE STREAM doubled AS SELECT id, Twice(n) + 1 AS n FROM s WHERE twice(n) > 2;")
    inputs = [CaseRecord("s", [1], [1]), CaseRecord("s", [2], [4]), CaseRecord("s", [3], [2**30])]
    found = session.records(inputs)
    assert [(each.key, each.value) for each in found] == [([2], [9])], "2 ** 31 is no INTEGER: the row is left out"


def test_the_text_keeps_its_lines_quotes_and_semicolons() -> None:
    body = '\ndef f(a, b):\n    """A; \'comment\' -- and ${name}"""\n    return {"a": a}.get(b); # `\n'
    text = f"{STREAM} CREATE FUNCTION f(a INT, `B` STRING) RETURNS INT LANGUAGE PYTHON AS $${body}$$; DROP FUNCTION f;"
    _, made, dropped = parse(text, {"name": "value"})
    assert isinstance(made, CreateFunction)
    assert made.body == body
    assert made.parameters == (("A", INTEGER), ("B", STRING))
    assert dropped.location is not None
    assert dropped.location.line == 5
    again = parse(to_text(made))[0]
    assert isinstance(again, CreateFunction)
    assert again.body == body


def test_a_string_is_a_text_too() -> None:
    (made,) = parse("CREATE FUNCTION f() RETURNS STRING LANGUAGE PYTHON AS '\"it''s $$\"'")
    assert isinstance(made, CreateFunction)
    assert made.body == '"it\'s $$"'
    (again,) = parse(to_text(made))
    assert isinstance(again, CreateFunction)
    assert again.body == made.body


def test_names_of_arguments_are_lower_case_unless_they_are_quoted() -> None:
    session = Session(ON)
    session.run("CREATE FUNCTION f(first INT, `Second` INT) RETURNS INT LANGUAGE PYTHON AS $$ first - Second $$;")
    functions: FunctionRegistry = registry(session.settings.functions, session.catalog)
    assert functions.scalar("F", [INTEGER, INTEGER]).call(5, 2) == 3
    assert functions.describe("f").category == "PYTHON"


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("CREATE FUNCTION f(a) RETURNS INT", "type"),
        ("CREATE FUNCTION f(a INT) LANGUAGE PYTHON AS $$1$$", "RETURNS"),
        ("CREATE FUNCTION f(a INT) RETURNS INT LANGUAGE JAVA AS $$1$$", "PYTHON"),
        ("CREATE FUNCTION f(a INT) RETURNS INT LANGUAGE PYTHON AS $$1", "does not end"),
        ("CREATE FUNCTION f(a INT) RETURNS INT LANGUAGE PYTHON AS 1", r"\$\$ text \$\$"),
    ],
)
def test_statements_that_are_no_function(text: str, error: str) -> None:
    with pytest.raises(ParseError, match=error):
        parse(text)


def test_the_analysis_of_a_query_alone_knows_functions() -> None:
    session = Session(ON)
    session.run(STREAM + TWICE)
    (query,) = parse("SELECT id, twice(n) AS m FROM s;")
    assert isinstance(query, Query)
    assert "`M` INTEGER" in str(analyse(query, session.catalog, session.settings, None).schema)


def test_functions_are_off_without_the_setting() -> None:
    assert "ksql.functions.python.enabled=true allows them" in refused(Session(), TWICE)


def test_names_that_are_taken() -> None:
    session = Session(ON)
    session.run(TWICE)
    assert "exists already" in refused(session, TWICE)
    assert session.run(TWICE.replace("FUNCTION", "FUNCTION IF NOT EXISTS")).already
    assert "is one of broker_sql" in refused(session, TWICE.replace("twice", "abs"))
    session.run(TWICE.replace("CREATE", "CREATE OR REPLACE").replace("2", "3"))
    assert "3" in session.catalog.functions["TWICE"].body


def test_a_function_in_use_stays() -> None:
    session = Session(ON)
    session.run(STREAM + TWICE + "CREATE STREAM doubled AS SELECT id, twice(n) AS n FROM s;")
    for text in ("DROP FUNCTION twice;", TWICE.replace("CREATE", "CREATE OR REPLACE")):
        assert "`TWICE` is in use by CSAS_DOUBLED_" in refused(session, text)


def test_functions_are_dropped() -> None:
    session = Session(ON)
    session.run(TWICE + "DROP FUNCTION twice;")
    assert not session.catalog.functions
    assert session.run("DROP FUNCTION IF EXISTS twice;").already
    assert "does not exist" in refused(session, "DROP FUNCTION twice;")
    assert "there is no function TWICE" in refused(
        session, STREAM + "CREATE STREAM d AS SELECT id, twice(n) AS n FROM s;"
    )


def test_a_text_that_is_not_python() -> None:
    assert "function TWICE: invalid syntax" in refused(Session(ON), TWICE.replace("n * 2", "return n *"))
