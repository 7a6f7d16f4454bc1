"""The catalog: its changes, and what other processes need of it."""

from __future__ import annotations

import pickle

import pytest

from broker_sql.catalog import Catalog, PutQuery, QueryInfo, RemoveQuery, nearest
from broker_sql.dialect import parse
from broker_sql.errors import AnalysisError, SqlError
from broker_sql.planner import plan
from broker_streams.plan.codec import to_json
from tests.broker_sql.planner.case_files import Session

STATEMENTS = """
CREATE TYPE money AS DECIMAL(6, 2);
CREATE STREAM orders (id INT KEY, customer STRING, price money) WITH (kafka_topic='orders', value_format='JSON');
CREATE TABLE people (name STRING PRIMARY KEY, city STRING) WITH (kafka_topic='people', value_format='JSON');
"""
QUERY = """CREATE TABLE spent AS SELECT p.city, SUM(price) AS total FROM orders o JOIN people p ON o.customer = p.name
  GROUP BY p.city HAVING SUM(price) > 10;"""


def test_a_change_leaves_the_catalog_before_as_it_was() -> None:
    before = Catalog()
    after = before.apply(PutQuery(QueryInfo("CSAS_X_0", ("A",), "X", "...")))
    assert before == Catalog()
    assert (after.next_query, after.readers("A"), after.writers("X")) == (1, ["CSAS_X_0"], ["CSAS_X_0"])
    # Numbers of queries are not given again.
    assert after.apply(RemoveQuery("CSAS_X_0")).next_query == 1


def test_another_process_plans_the_same_from_a_copy() -> None:
    """If this fails, a worker runs another topology than its driver, or cannot be given the catalog."""
    session = Session()
    session.run(STATEMENTS)
    copy = pickle.loads(pickle.dumps(session.catalog))
    assert copy == session.catalog
    (statement,) = parse(QUERY)
    texts = []
    for catalog in (session.catalog, copy):
        planned = plan(statement, catalog, session.settings)
        assert planned.topology is not None
        texts.append(to_json(planned.topology.plan))
    assert texts[0] == texts[1]


def test_nearest_names_have_the_quotes_that_they_need() -> None:
    assert nearest("ORDER", ["ORDERS", "PEOPLE"]) == ". Did you mean ORDERS?"
    assert nearest("ORDERS", ["orders"]) == ". Did you mean `orders`?"
    assert nearest("X", ["ORDERS"]) == ""


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("CREATE STREAM x AS SELECT * FROM orders LIMIT 3;", "LIMIT is for queries of a client"),
        ("DROP TABLE orders;", "write DROP STREAM"),
        ("DROP STREAM order;", "Did you mean ORDERS"),
        ("DROP TYPE mony;", "Did you mean MONEY"),
        ("CREATE STREAM orders (a INT) WITH (kafka_topic='x', value_format='JSON');", "exists already"),
        ("INSERT INTO people SELECT * FROM orders;", "is a table"),
        (
            "CREATE STREAM x AS SELECT * FROM orders o JOIN orders p WITHIN 1 SECOND ON o.id = p.id;",
            "joined with itself",
        ),
    ],
)
def test_what_a_catalog_refuses(statement: str, message: str) -> None:
    session = Session()
    session.run(STATEMENTS)
    with pytest.raises(SqlError, match=message) as caught:
        session.run(statement)
    assert caught.value.location is not None


def test_a_type_that_is_missing_is_named() -> None:
    with pytest.raises(AnalysisError, match="`MONEY` is no type"):
        Session().run("CREATE STREAM x (a money) WITH (kafka_topic='x', value_format='JSON');")
