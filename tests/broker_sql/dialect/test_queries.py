"""SELECT as statements: a clause that is lost or misread here is a query with another result."""

from sqlglot import exp

from broker_sql.dialect import parse
from broker_sql.statements import (
    Duration,
    Emit,
    JoinKind,
    Query,
    SelectAll,
    SelectItem,
    WindowKind,
)


def query(text: str) -> Query:
    (statement,) = parse(text)
    assert isinstance(statement, Query)
    return statement


def test_every_clause_of_a_query_is_kept() -> None:
    found = query(
        "select shop, count(*) n from orders o window hopping (size 1 minute, advance by 10 seconds, retention 2 hours,"
        " grace period 5 milliseconds) where price > 3 group by shop having count(*) > 1 emit changes limit 7"
    )
    assert found.source.name == "ORDERS"
    assert found.source.label == "O"
    window = found.window
    assert window is not None
    assert window.kind is WindowKind.HOPPING
    assert (window.size.ms, window.advance, window.retention, window.grace) == (
        60_000,
        Duration(10, "SECOND"),
        Duration(2, "HOUR"),
        Duration(5, "MILLISECOND"),
    )
    assert isinstance(found.where, exp.GT)
    assert isinstance(found.having, exp.GT)
    assert found.group_by is not None
    assert [each.name for each in found.group_by] == ["SHOP"]
    assert (found.emit, found.limit) == (Emit.CHANGES, 7)
    second = found.items[1]
    assert isinstance(second, SelectItem)
    assert second.alias == "N"
    assert second.expression == exp.Anonymous(this="COUNT", expressions=[exp.Star()])


def test_session_and_tumbling_windows() -> None:
    session = query("SELECT a FROM s WINDOW SESSION (30 SECONDS, GRACE PERIOD 1 DAY) GROUP BY a EMIT FINAL").window
    assert session is not None
    assert session.size.ms == 30_000
    assert session.grace == Duration(1, "DAY")
    tumbling = query("SELECT a FROM s WINDOW w TUMBLING (SIZE 1 HOUR) GROUP BY a EMIT FINAL").window
    assert tumbling is not None
    assert tumbling.kind is WindowKind.TUMBLING
    assert tumbling.advance is None


def test_joins_keep_their_kind_window_and_order() -> None:
    found = query(
        "SELECT * FROM a JOIN b WITHIN 1 HOUR ON a.id = b.id"
        " LEFT JOIN c AS cc WITHIN (1 MINUTE, 2 MINUTES) GRACE PERIOD 3 SECONDS ON a.id = cc.id"
        " FULL OUTER JOIN d ON a.id = d.id RIGHT JOIN e ON a.id = e.id EMIT CHANGES"
    )
    assert [each.kind for each in found.joins] == [JoinKind.INNER, JoinKind.LEFT, JoinKind.FULL, JoinKind.RIGHT]
    first, second, third, _ = found.joins
    assert first.within is not None
    assert first.within.before == first.within.after == Duration(1, "HOUR")
    assert second.source.label == "CC"
    assert second.within is not None
    assert (second.within.before.ms, second.within.after.ms) == (60_000, 120_000)
    assert second.within.grace == Duration(3, "SECOND")
    assert third.within is None
    assert isinstance(second.on, exp.EQ)
    assert second.on.this.table == "A"


def test_stars_and_fields_of_structs() -> None:
    found = query("SELECT *, o.*, address->*, address->street, o.address->`Zip code` z FROM orders o EMIT CHANGES")
    everything, of_orders, fields, street, code = found.items
    assert everything == SelectAll()
    assert of_orders == SelectAll(found.source.alias)
    assert isinstance(fields, SelectItem)
    assert fields.expression.key == "structall"
    assert isinstance(street, SelectItem)
    assert street.expression.output_name == "STREET"
    assert isinstance(code, SelectItem)
    assert code.expression.output_name == "Zip code"
    assert code.alias == "Z"


def test_parentheses_around_all_groups_are_no_expression() -> None:
    assert query("SELECT a FROM s GROUP BY (a, b)").group_by == query("SELECT a FROM s GROUP BY a, b").group_by
    assert query("SELECT a FROM s GROUP BY ()").group_by == ()
    assert query("SELECT a FROM s").group_by is None
    (product,) = query("SELECT a FROM s PARTITION BY (a + b) * 2 EMIT CHANGES").partition_by or ()
    assert isinstance(product, exp.Mul)


def test_clauses_are_no_aliases() -> None:
    assert query("SELECT a FROM s EMIT CHANGES").source.alias is None
    assert query("SELECT a FROM s PARTITION BY a").source.alias is None
    assert query("SELECT a FROM s emit").source.alias == "EMIT"
