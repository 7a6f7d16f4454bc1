"""Operations of streams without state."""

from __future__ import annotations

from typing import Any

from tests.broker_streams.oracle.scenarios.kit import Calls, do, out, spec

A = do("stream a", topic="A")
INPUT = "A k v1 0; A - v2 1; A k - 2; A - - 3; A l w 4 h=01 h="


def _one(text: str, **options: Any) -> Calls:
    return [A, do(text, **options), *out("b")]


SCENARIOS: dict[str, dict[str, Any]] = {
    "a source and a sink copy keys, values, times and headers": spec([A, *out("a")], INPUT),
    "filter keeps records without a key": spec(_one("filter b a", predicate=["mod", "value", 2, 0]), INPUT),
    "filter_not is the rest of filter": spec(_one("filter_not b a", predicate=["mod", "value", 2, 0]), INPUT),
    "map changes both, and makes null": spec(_one("map b a", to=["value", None]), INPUT),
    "map_values sees null": spec(_one("map_values b a", to=["text_of", "value"]), INPUT),
    "map_values with the key": spec(_one("map_values b a", to=["concat", "key", "value"], with_key=True), INPUT),
    "flat_map makes two records and none": spec(
        _one("flat_map b a", to=[["key", ["text", "one"]], ["value", "key", ["not", ["is_null", "key"]]]]), INPUT
    ),
    "flat_map_values to nothing": spec(_one("flat_map_values b a", to=[]), INPUT),
    "flat_map_values in order": spec(
        _one("flat_map_values b a", to=["value", "key", ["text", "third"]], with_key=True), INPUT
    ),
    "select_key to null": spec(_one("select_key b a", to=None), INPUT),
    "select_key keeps time and headers": spec(_one("select_key b a", to="value"), INPUT),
    "peek passes on": spec(_one("peek b a"), INPUT),
    "foreach ends a branch": spec([A, do("foreach - a"), *out("a")], INPUT),
    "merge keeps the order of both": spec(
        [A, do("stream b", topic="B"), do("merge m a b"), *out("m")], "A k a1 5; B k b1 2; A k a2 1"
    ),
    "merge of a stream with itself doubles": spec([A, do("merge m a a"), *out("m")], INPUT),
    "merge of both branches of a stream": spec(
        [
            A,
            do("filter b a", predicate=["mod", "value", 2, 0]),
            do("filter_not c a", predicate=["mod", "value", 3, 0]),
            do("merge m b c"),
            *out("m"),
        ],
        INPUT,
    ),
    "split takes the first predicate that holds": spec(
        [
            A,
            do(
                "split - a",
                branches=[
                    {"id": "b", "predicate": ["mod", "value", 2, 0]},
                    {"id": "c", "predicate": ["not", ["is_null", "value"]]},
                ],
                default={"id": "d"},
            ),
            *out("b", topic="first"),
            *out("c", topic="second"),
            *out("d", topic="rest"),
        ],
        INPUT,
    ),
    "split without a default drops the rest": spec(
        [A, do("split - a", branches=[{"id": "b", "predicate": ["is_null", "key"]}]), *out("b")], INPUT
    ),
    "split with names": spec(
        [
            A,
            do(
                "split - a",
                name="parts-",
                branches=[{"id": "b", "predicate": ["is_null", "key"], "name": "keyless"}],
                default={"id": "c", "name": "keyed"},
            ),
            *out("b"),
            *out("c", topic="out2"),
        ],
        INPUT,
    ),
    "a repartition drops no null key": spec([A, do("repartition b a"), *out("b")], INPUT),
    "a repartition with a name and a number": spec(
        [A, do("select_key k a", to="value"), do("repartition b k", name="again", partitions=1), *out("b")], INPUT
    ),
    "two sources of one topic are one": spec([A, do("stream b", topic="A"), *out("a"), *out("b", topic="out2")], INPUT),
    "a source of several topics": spec([do("stream a", topics=["A", "B"]), *out("a")], "A k a1 5; B k b1 2"),
    "a source of a pattern": spec([do("stream a", pattern="in-.*"), *out("a")], ""),
    "records of a sink that is a source come back": spec(
        [A, *out("a", topic="B"), do("stream b", topic="B"), do("map_values c b", to=["end", "value", 1]), *out("c")],
        INPUT,
    ),
    "topics of records": spec(
        [A, do("to - a", topic_of=["concat", ["text", "out-"], "value"], key="string", value="string")],
        "A k v1 0; A k v2 1",
    ),
    "Long keys and values": spec(
        [
            do("stream a", topic="A", key="long", value="long"),
            do("map_values b a", to=["add", "value", "value"]),
            *out("b", key="long", value="long"),
        ],
        "A 1 2 0; A -1 300 1; A - - 2",
    ),
    "a timestamp extractor": spec(
        [do("stream a", topic="A", key="string", value="long", timestamp=["add", "value", 100]), *out("a", "long")],
        "A k 5 0; A k 1 50",
    ),
    "a record with a negative time is dropped": spec(
        [do("stream a", topic="A", key="string", value="long", timestamp="value"), *out("a", "long")],
        "A k 5 0; A k -1 50; A k 3 60",
    ),
    "poison ends the task": spec(
        [do("stream a", topic="A", key="string", value="long"), *out("a", "long")], "A k 5 0; A k 0xff 1; A k 6 2"
    ),
    "poison is dropped with the handler for that": spec(
        [do("stream a", topic="A", key="string", value="long"), *out("a", "long")],
        "A k 5 0; A k 0xff 1; A k 6 2",
        {"default.deserialization.exception.handler": "org.apache.kafka.streams.errors.LogAndContinueExceptionHandler"},
    ),
    "a value that the sink's serde does not take": spec([A, *out("a", "long")], "A k v 0; A k w 1"),
    "a function that fails": spec(
        _one("map_values b a", to=["if", ["equal", "value", ["text", "bad"]], ["fail"], "value"]),
        "A k v 0; A k bad 1; A k w 2",
    ),
    "a function that fails, and the handler that continues": spec(
        _one("map_values b a", to=["if", ["equal", "value", ["text", "bad"]], ["fail"], "value"]),
        "A k v 0; A k bad 1; A k w 2",
        {"processing.exception.handler": "org.apache.kafka.streams.errors.LogAndContinueProcessingExceptionHandler"},
    ),
    "an unknown topic": spec([A, *out("a")], "B k v 0"),
    "names of all operations": spec(
        [
            do("stream a", topic="A", name="source"),
            do("filter b a", predicate=True, name="filter"),
            do("map c b", to=["key", "value"], name="map"),
            do("map_values d c", to="value", name="values"),
            do("flat_map e d", to=[["key", "value"]], name="flat"),
            do("select_key f e", to="key", name="key"),
            do("merge g f a", name="merge"),
            do("peek h g", name="peek"),
            do("foreach - h", name="foreach"),
            do("to - h", topic="out", name="sink"),
        ],
        INPUT,
    ),
    "a name that is taken": spec(
        [A, do("filter b a", predicate=True, name="x"), do("filter c a", predicate=True, name="x")], ""
    ),
}
