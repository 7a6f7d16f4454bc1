"""Operators of which the other rooms have few scenarios: behind and before state, with errors, and in a row."""

from __future__ import annotations

from typing import Any, Final

from tests.broker_streams.oracle.scenarios.kit import Calls, do, out, spec, stored, table_out

CONTINUES: Final = {
    "processing.exception.handler": "org.apache.kafka.streams.errors.LogAndContinueProcessingExceptionHandler"
}
ANY_SERDES: Final = {"key": "string", "value": "string"}
A = do("stream a", topic="A")
ROWS = do("add_state_store -", name="rows", kind="key-value", key="string", value="string")
INPUT = "A k v1 0; A - v2 1; A k - 2; A l w 4 h=01; A k v1 9; A l w 3"
TABLE_INPUT = "A k v1 0; A l w1 1; A k v2 2; A k - 3; A k - 4; A - v3 5; A l w2 0; A k v4 6 h=01"
FAILS = ["if", ["equal", "value", ["text", "w"]], ["fail"], "value"]
TWICE = ["concat", "value", "value"]


def _counted(*before: Any) -> Calls:
    """Count the records of `b`."""
    return [A, *before, do("group_by_key g b", **ANY_SERDES), do("count c g"), *table_out("c", "long")]


def _valued(id_: str, on: str, store: str = "rows") -> Any:
    return do(
        f"process_values {id_} {on}", stores=[store], update=["concat", "other", "value"],
        emit=["concat", "value", ["text", "="], "other"],
    )  # fmt: skip


STREAMS: dict[str, dict[str, Any]] = {
    "flat_map before a count repartitions": spec(
        _counted(do("flat_map b a", to=[["key", "value"], ["value", "key", ["not", ["is_null", "value"]]]])), INPUT
    ),
    "flat_map of a flat_map": spec(
        [A, do("flat_map b a", to=[["key", "value"], ["value", "key"]]),
         do("flat_map c b", to=[["key", TWICE], ["value", "key", ["is_null", "key"]]]), *out("c")],
        INPUT,
    ),
    "flat_map that fails between its records": spec(
        [A, do("flat_map b a", to=[["key", ["text", "first"]], ["key", FAILS]]), *out("b")], INPUT, CONTINUES
    ),
    "flat_map_values before a count repartitions nothing": spec(
        _counted(do("flat_map_values b a", to=["value", TWICE])), INPUT
    ),
    "flat_map_values to null": spec([A, do("flat_map_values b a", to=[None, "value", None]), *out("b")], INPUT),
    "flat_map_values that fails": spec(
        [A, do("flat_map_values b a", to=["value", FAILS]), *out("b")], INPUT, CONTINUES
    ),
    "flat_map_values of a table's updates": spec(
        [do("table t", topic="A", **ANY_SERDES), do("to_stream s t"), do("flat_map_values b s", to=["value", TWICE]),
         *out("b")],
        INPUT,
    ),
    "foreach of a table's updates, beside a sink": spec(
        [do("table t", topic="A", **ANY_SERDES), do("to_stream s t"), do("foreach - s", name="each"), *out("s")], INPUT
    ),
    "foreach alone": spec([A, do("foreach - a")], INPUT),
    "peek between a new key and a count": spec(
        _counted(do("select_key x a", to="value"), do("peek b x", name="look")), INPUT
    ),
    "peek before a count repartitions nothing": spec(_counted(do("peek b a")), INPUT),
    "map to another key before a count": spec(_counted(do("map b a", to=["value", "key"])), INPUT),
    "filter between a new key and a count": spec(
        _counted(do("select_key x a", to="value"), do("filter_not b x", predicate=["mod", "value", 2, 0])), INPUT
    ),
    "a repartition of a repartition": spec(
        [A, do("repartition b a", name="one"), do("repartition c b", name="two"), *out("c")], INPUT
    ),
    "a repartition with serdes": spec(
        [A, do("map b a", to=["value", ["length", "value"]]), do("repartition c b", key="string", value="long"),
         *out("c", "long")],
        "A k v1 0; A k v22 1; A l v333 2",
    ),
    "a repartition before a join needs no other": spec(
        [A, do("select_key x a", to="value"), do("repartition b x", name="own"), do("table t", topic="B", **ANY_SERDES),
         do("join j b t", joiner=["concat", "value", ["text", "+"], "other"]), *out("j")],
        "B v1 t1 0; A k v1 1; A k v2 2; B v2 t2 3; A l v2 4",
    ),
    "two repartitions with one name are an error": spec(
        [A, do("repartition b a", name="one"), do("repartition c a", name="one"), *out("b"),
         *out("c", topic="out2")],
        "",
    ),
    "merge of a new key and a count": spec(
        _counted(do("select_key x a", to="value"), do("stream y", topic="B"), do("merge b x y")), INPUT + "; B v1 u 10"
    ),
    "to_table of a merge": spec(
        [A, do("stream y", topic="B"), do("merge b a y"), do("to_table t b", materialized=stored("string", name="t")),
         *table_out("t")],
        "A k v1 0; B k v2 1; A k - 2; B - v 3; B k v0 0",
    ),
    "to_table and a join": spec(
        [A, do("to_table t a", name="rows"), do("stream y", topic="B"),
         do("left_join j y t", joiner=["concat", "value", ["text", "+"], "other"]), *out("j")],
        "A k v1 0; B k b1 1; A k - 2; B k b2 3; B l b3 4",
    ),
    "split of a split": spec(
        [A,
         do("split - a", branches=[{"id": "b", "predicate": ["not", ["is_null", "value"]]}], default={"id": "c"}),
         do("split - b", branches=[{"id": "d", "predicate": ["mod", "value", 2, 0]}], default={"id": "e"}),
         *out("c", topic="nulls"), *out("d", topic="even"), *out("e", topic="odd")],
        INPUT,
    ),
    "a predicate of a split fails": spec(
        [A, do("split - a", branches=[{"id": "b", "predicate": ["equal", FAILS, ["text", "v1"]]}], default={"id": "c"}),
         *out("b"), *out("c", topic="rest")],
        INPUT, CONTINUES,
    ),
}  # fmt: skip

VALUES: dict[str, dict[str, Any]] = {
    "process_values of two processors in a row": spec(
        [ROWS, A, _valued("p", "a"), _valued("q", "p"), *out("q")], INPUT
    ),
    "process_values behind a new key": spec(
        [ROWS, A, do("select_key x a", to="value"), _valued("p", "x"), *out("p")], INPUT
    ),
    "process_values, and then a table": spec(
        [ROWS, A, _valued("p", "a"), do("to_table t p", materialized=stored("string", name="t")),
         *table_out("t")],
        INPUT,
    ),
    "process_values of a table's updates": spec(
        [ROWS, do("table t", topic="A", **ANY_SERDES), do("to_stream s t"), _valued("p", "s"), *out("p")], TABLE_INPUT
    ),
    "process_values that deletes rows": spec(
        [ROWS, A, do("process_values p a", stores=["rows"], update=["if", ["mod", "value", 2, 0], None, "value"],
                     emit="other"), *out("p")],
        INPUT,
    ),
    "process_values that fails": spec(
        [ROWS, A, do("process_values p a", stores=["rows"], update="value", emit=FAILS), *out("p")], INPUT, CONTINUES
    ),
    "process_values in memory, without a changelog": spec(
        [ROWS | {"persistent": False, "logging": False}, A, _valued("p", "a"), *out("p")], INPUT
    ),
    "transform_values of a count": spec(
        [*_counted(do("peek b a"))[:-2], do("transform_values f c", to=["add", "value", 100]), *table_out("f", "long")],
        INPUT,
    ),
    "transform_values, and then a join": spec(
        [do("table t", topic="A", **ANY_SERDES), do("table u", topic="B", **ANY_SERDES),
         do("transform_values f t", to=TWICE, materialized=stored("string", name="f")),
         do("outer_join j f u", joiner=["concat", "value", ["text", "+"], "other"]), *table_out("j")],
        f"{TABLE_INPUT}; B k x 7; B l y 8; B m z 9; A m v 9",
    ),
    "transform_values, and then a filter": spec(
        [do("table t", topic="A", **ANY_SERDES), do("transform_values f t", to=["concat", "key", "value"]),
         do("filter g f", predicate=["mod", "value", 2, 0], materialized=stored("string", name="g")), *table_out("g")],
        TABLE_INPUT,
    ),
    "transform_values of transformed values": spec(
        [do("table t", topic="A", **ANY_SERDES), do("transform_values f t", to=TWICE),
         do("transform_values g f", to=["length", "value"], materialized=stored("long", name="g")),
         *table_out("g", "long")],
        TABLE_INPUT,
    ),
    "transform_values that fails": spec(
        [do("table t", topic="A", **ANY_SERDES),
         do("transform_values f t", to=["if", ["equal", "value", ["text", "w1"]], ["fail"], "value"],
            materialized=stored("string", name="f")),
         *table_out("f")],
        TABLE_INPUT, CONTINUES,
    ),
}  # fmt: skip
