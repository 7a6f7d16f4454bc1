"""Errors of texts: the place, the found text, what could stand there, and the word that was probably meant."""

import subprocess
import sys
from random import Random

import pytest
from sqlglot import exp

from broker_sql.dialect import parse, parse_expression, to_text
from broker_sql.errors import Location, ParseError
from broker_sql.terminal.highlight import styled
from tests.broker_sql.dialect.forms import FORMS


@pytest.mark.parametrize(
    ("text", "place", "parts"),
    [
        ("SELCT * FROM s;", (1, 1), ["unexpected 'SELCT'", "did you mean SELECT?"]),
        ("SELECT * FORM s;", (1, 10), ["unexpected 'FORM'", "',' or FROM", "did you mean FROM?"]),
        ("SELECT a FORM s;", (1, 15), ["unexpected 's'", "did you mean FROM instead of FORM before it?"]),
        ("CREATE STREM s (a INT) WITH (x=1);", (1, 8), ["did you mean STREAM?"]),
        ("CREATE STREAM s (a INT);", (1, 24), ["unexpected end of the statement", "WITH"]),
        ("CREATE STREAM s (\n  a INT,\n  b\n) WITH (x=1);", (4, 1), ["unexpected ')'", "a type"]),
        (
            "SELECT a FROM s WINDOW TUMBLIN (SIZE 1 HOUR)",
            (1, 24),
            ["TUMBLING, HOPPING or SESSION", "did you mean TUMBLING?"],
        ),
        ("SELECT a FROM s WINDOW TUMBLING (SIZE 1 HOURE)", (1, 41), ["did you mean HOUR?"]),
        ("SELECT a FROM s WINDOW TUMBLING (SIZE 1 MONTH)", (1, 41), ["no fixed span", "DAYS"]),
        ("SELECT a FROM select;", (1, 15), ["'select' is a reserved word", "the name of a stream or table"]),
        ("SELECT a + FROM s;", (1, 12), ["unexpected 'FROM'", "expected an expression"]),
        ("SELECT (a FROM s;", (1, 11), ["unexpected 'FROM'", "')'"]),
        ("SELECT 'abc FROM s;", (1, 8), ["string", "does not end"]),
        ("SELECT a /* FROM s;", (1, 10), ["comment", "does not end"]),
        ("SELECT größe FROM s;", (1, 8), ["größe has letters", "`größe`"]),
        ("SELECT a # b FROM s;", (1, 10), ["'#' is no part of a statement"]),
        ("SELECT 9223372036854775808 FROM s;", (1, 8), ["out of the range of BIGINT"]),
        ("SELECT -9223372036854775809 FROM s;", (1, 9), ["out of the range of BIGINT"]),
        ("SELECT 1e999 FROM s;", (1, 8), ["out of the range of DOUBLE"]),
        ("SELECT CAST(a AS DECIMAL(2, 5)) FROM s;", (1, 26), ["scale 5", "0 to the precision"]),
        ("SELECT TRANSFORM(a, (b, c, d, e) => b) FROM s;", (1, 21), ["at most 3 parameters", "4"]),
        ("SELECT a LIKE 'b' ESCAPE 'cc' FROM s;", (1, 26), ["'cc'", "one character"]),
        ("SELECT * FROM EXPLODE(a);", (1, 15), ["EXPLODE is called"]),
        ("CREATE TABLE t (k INT KEY) WITH (x=1);", (1, 17), ["PRIMARY KEY"]),
        ("CREATE STREAM s (k INT PRIMARY KEY) WITH (x=1);", (1, 18), ["marked KEY"]),
        ("CREATE STREAM s (k INT) WITH (VALUE_FORMAT=JSON);", (1, 44), ["'JSON' in single quotes"]),
        ("CREATE SOURCE STREAM s AS SELECT * FROM a;", (1, 8), ["SOURCE"]),
        ("SHOW STREMS;", (1, 6), ["did you mean STREAMS?"]),
        ("SHOW STREAMS TABLES;", (1, 14), ["unexpected 'TABLES'", "EXTENDED or ';'"]),
        ("DROP STREAM s DELETE;", (1, 15), ["unexpected 'DELETE'", "DELETE TOPIC"]),
        ("PREVIEW 0 SELECT * FROM s;", (1, 9), ["1 or more records"]),
        ("PREVIEW CREATE STREAM s (a INT) WITH (x=1);", (1, 9), ["CREATE ... AS SELECT"]),
        ("PREVIEW DROP STREAM s;", (1, 9), ["a number of records, SELECT, CREATE or INSERT"]),
        ("PRINT t INTERVAL 0;", (1, 18), ["INTERVAL 0", "1 or more"]),
        ("ASSERT SCHEMA;", (1, 14), ["SUBJECT or ID"]),
        ("INSERT INTO s (a) VALUES (1), (2);", (1, 29), ["unexpected ','", "';'"]),
        ("SET auto = 'x';", (1, 5), ["the name of a property in single quotes"]),
        ("SHOW STREAMS; SHOW\nTOPCS;", (2, 1), ["did you mean TOPICS?"]),
    ],
)
def test_message(text: str, place: tuple[int, int], parts: list[str]) -> None:
    with pytest.raises(ParseError) as raised:
        parse(text)
    assert raised.value.location == Location(*place), raised.value
    for part in parts:
        assert part in raised.value.message, raised.value


@pytest.mark.parametrize("text", ["(" * 5000, "NOT " * 5000 + "a", "- " * 5000 + "a", "ARRAY[" * 5000])
def test_depth_is_bounded(text: str) -> None:
    with pytest.raises(ParseError, match="more than 128"):
        parse_expression(text)


def test_chains_of_operators_are_bounded_and_those_of_conditions_are_flat() -> None:
    with pytest.raises(ParseError, match="more than 128 operators"):
        parse_expression("+".join("a" * 500))
    leaves = parse_expression(" OR ".join(["a = 1"] * 2000)).find_all(exp.EQ)
    assert max(each.depth for each in leaves) == 11


def test_texts_that_are_nearly_statements_are_refused_with_a_place() -> None:
    random = Random(7)
    texts = [text for text, _ in FORMS]
    places = []
    for _ in range(800):
        text = random.choice(texts)
        start = random.randrange(len(text) + 1)
        end = min(len(text), start + random.randrange(8))
        middle = random.choice(["", random.choice("()[]'`\",;.*-><=:$#{}/5é\n "), text[start:end] * 2])
        changed = text[:start] + middle + text[end:]
        try:
            found = parse(changed)
        except ParseError as error:
            found = []
            places.append(error.location)
        for each in found:
            assert parse(to_text(each)) == [each], changed
        assert "".join(part for _, part in styled(changed)) == changed
    assert len(places) > 300
    assert None not in places


def test_statements_before_an_error_are_not_returned_by_halves() -> None:
    with pytest.raises(ParseError):
        parse("SHOW STREAMS; SHOW;")


def test_the_compiled_sqlglot_is_refused_by_the_name_of_its_package() -> None:
    program = "import sqlglot.tokens as t; t.SQLGLOTC_INSTALLED = True; import broker_sql.dialect"
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert found.returncode == 1
    assert "pip uninstall sqlglotc" in found.stderr
