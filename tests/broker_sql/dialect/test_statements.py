"""All forms of statements, and texts with several of them."""

from decimal import Decimal

import pytest

from broker_sql import statements
from broker_sql.dialect import parse
from broker_sql.errors import Location, ParseError
from broker_sql.statements import (
    AssertSchema,
    AssertTombstone,
    AssertTopic,
    ConnectorKind,
    CreateConnector,
    CreateSource,
    CreateStream,
    CreateTable,
    CreateTableAs,
    Define,
    Explain,
    InsertInto,
    InsertValues,
    Mark,
    Query,
    Statement,
)
from broker_sql.types import INTEGER, STRING, Array, Map, NamedType, Struct
from tests.broker_sql.dialect.forms import FORMS


@pytest.mark.parametrize(("text", "form"), FORMS)
def test_form(text: str, form: str) -> None:
    (found,) = parse(text + ";")
    assert type(found) is getattr(statements, form)
    assert found.text == text
    assert found.location == Location(1, 1)


def test_all_forms_have_a_case() -> None:
    abstract = {"Statement", "CreateSource", "CreateAs", "DropSource"}
    forms = {
        name
        for name in statements.__all__
        if isinstance(each := getattr(statements, name), type) and issubclass(each, Statement) and name not in abstract
    }
    assert {form for _, form in FORMS} == forms


def one(text: str) -> Statement:
    (found,) = parse(text)
    return found


def test_columns_of_sources() -> None:
    found = one(
        "CREATE OR REPLACE SOURCE STREAM IF NOT EXISTS s (`k` INT KEY, v STRUCT<a VARCHAR, b ARRAY<t>>,"
        " m MAP<STRING, INT>, h ARRAY<STRUCT<key STRING, value BYTES>> HEADERS,"
        " one BYTES HEADER('x')) WITH (kafka_topic = 's', PARTITIONS=3)"
    )
    assert isinstance(found, CreateStream)
    assert found.or_replace
    assert found.if_not_exists
    assert found.source
    key, value, map_, headers, header = found.elements
    assert (key.name, key.type, key.mark) == ("k", INTEGER, Mark.KEY)
    assert value.type == Struct((("A", STRING), ("B", Array(NamedType("T")))))
    assert value.mark is Mark.NONE
    assert map_.type == Map(STRING, INTEGER)
    assert (headers.mark, headers.header, header.mark, header.header) == (Mark.HEADERS, None, Mark.HEADERS, "x")
    assert found.properties.as_dict() == {"KAFKA_TOPIC": "s", "PARTITIONS": 3}
    table = one("CREATE TABLE t (k INT PRIMARY KEY) WITH (KAFKA_TOPIC='t')")
    assert isinstance(table, CreateTable)
    assert table.elements[0].mark is Mark.PRIMARY_KEY
    inferred = one("CREATE STREAM s WITH (KAFKA_TOPIC='t')")
    assert isinstance(inferred, CreateSource)
    assert inferred.elements == ()


def test_properties_have_the_values_of_their_literals() -> None:
    found = one("CREATE STREAM s WITH (a='x', 'b.c'=1, d=-1.5, e=TRUE, f=1e3)")
    assert isinstance(found, CreateStream)
    assert found.properties.as_dict() == {"A": "x", "b.c": 1, "D": Decimal("-1.5"), "E": True, "F": 1000.0}
    assert found.properties.get("B.C") == 1
    with pytest.raises(ParseError, match="1:30: property KEY stands twice"):
        parse("CREATE STREAM s WITH (key=1, KEY=2)")


def test_queries_inside_of_statements() -> None:
    found = one("CREATE TABLE IF NOT EXISTS t WITH (PARTITIONS=2) AS SELECT a, COUNT(*) FROM s GROUP BY a EMIT CHANGES")
    assert isinstance(found, CreateTableAs)
    assert found.if_not_exists
    assert found.properties.get("partitions") == 2
    assert found.query.text.startswith("SELECT a")
    assert found.query.location == Location(1, 53)
    insert = one("INSERT INTO s WITH (QUERY_ID='q') SELECT * FROM b")
    assert isinstance(insert, InsertInto)
    assert insert.properties.get("QUERY_ID") == "q"
    values = one("INSERT INTO s (a, ROWTIME) VALUES (1 + 2, NULL)")
    assert isinstance(values, InsertValues)
    assert values.columns == ("A", "ROWTIME")
    assert len(values.values) == 2
    explain = one("EXPLAIN SELECT * FROM s EMIT CHANGES")
    assert isinstance(explain, Explain)
    assert isinstance(explain.statement, Query)
    assert explain.query_id is None


def test_asserts_and_connectors() -> None:
    topic = one("ASSERT NOT EXISTS TOPIC 'my-topic' WITH (PARTITIONS=1) TIMEOUT 3 SECONDS")
    assert isinstance(topic, AssertTopic)
    assert not topic.exists
    assert topic.topic == "my-topic"
    assert topic.timeout is not None
    assert topic.timeout.ms == 3000
    schema = one("ASSERT SCHEMA SUBJECT 's-value' ID 5")
    assert isinstance(schema, AssertSchema)
    assert (schema.subject, schema.id, schema.exists) == ("s-value", 5, True)
    gone = one("ASSERT NULL VALUES t (id) KEY (5)")
    assert isinstance(gone, AssertTombstone)
    assert gone.columns == ("ID",)
    connector = one("CREATE SINK CONNECTOR IF NOT EXISTS `my-sink` WITH ('connector.class'='x.Y', \"tasks.max\"='1')")
    assert isinstance(connector, CreateConnector)
    assert connector.kind is ConnectorKind.SINK
    assert connector.name == "my-sink"
    assert connector.config.as_dict() == {"connector.class": "x.Y", "tasks.max": "1"}


def test_a_text_with_several_statements() -> None:
    found = parse(
        "-- first; comment\nSHOW STREAMS; /* a; b */ SET 'a'=';';;\n SHOW TABLES EXTENDED -- end\n ; -- nothing more"
    )
    assert [type(each).__name__ for each in found] == ["ListStreams", "SetProperty", "ListTables"]
    assert [str(each.location) for each in found] == ["line 2:1", "line 2:26", "line 3:2"]
    assert parse("") == parse(" -- nothing\n") == []


def test_variables_change_statements_behind_their_definition() -> None:
    define, create, *_ = parse(
        "DEFINE Topic = 'o''brien'; CREATE STREAM ${name} (a INT)"
        " WITH (kafka_topic='${topic}', x='$${topic}', y='${no}');"
        " SHOW STREAMS; UNDEFINE topic",
        {"NAME": "orders"},
    )
    assert isinstance(define, Define)
    assert define.name == "Topic"
    assert define.value == "o'brien"
    assert isinstance(create, CreateStream)
    assert create.name == "ORDERS"
    assert create.properties.as_dict() == {"KAFKA_TOPIC": "o'brien", "X": "${topic}", "Y": "${no}"}
    assert "${name}" not in create.text
    with pytest.raises(ParseError, match=r"line 1:\d+: variable \${topic} is not defined"):
        parse("DEFINE topic='x'; UNDEFINE topic; SHOW ${topic}")


def test_places_behind_variables_are_those_of_the_text() -> None:
    with pytest.raises(ParseError) as raised:
        parse("SELECT ${a} FROM\n ${b} WHERE ;", {"a": "x, y, z", "b": "a_long_name"})
    assert raised.value.location == Location(2, 12)
