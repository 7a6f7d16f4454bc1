"""Combinations of operators that Kafka's own tests look at: suppressed tables in joins, cogroups of several groups,
self-joins, shared repartition topics, stores in memory by a setting, and the interval of emission.
"""

from __future__ import annotations

from typing import Any

from tests.broker_streams.oracle.scenarios.joins import within
from tests.broker_streams.oracle.scenarios.kit import (
    APPENDED,
    LEFT_RIGHT,
    Calls,
    counted,
    do,
    grouped,
    out,
    session,
    sliding,
    spec,
    stored,
    table_out,
    time,
)

OPTIMIZED = {"topology.optimization": "all"}
IN_MEMORY = {
    "dsl.store.suppliers.class": ("org.apache.kafka.streams.state.BuiltInDslStoreSuppliers$InMemoryDslStoreSuppliers")
}
MERGED = ["concat", "value", ["text", "&"], "other"]
BEFORE = ["concat", "value", ["text", "<"], "other"]
CLOSING = "A k v 0; B k w 4; A k v 5; A l v 9; B l w 12; A k v 12; A k v 3; A l v 31; B k w 8; A k v 60; A z z 200"
THREE = "A k a1 0; B k b1 1; C k c1 2; A l a2 3; C l c2 1; B l b2 9; C k - 10; A - a3 11; B k b3 4; C m c3 12"
PAIRS = "A k a1 0; A k a2 6; A l b1 7; A k a3 3; A k a4 20; A - n 21; A l - 22; A k a5 11; A k a6 90; A l b2 84"


def _cogrouped(windows: dict[str, Any] | None = None) -> Calls:
    """A table `c` of streams A and B."""
    found: Calls = [
        *grouped(),
        do("stream b", topic="B"),
        do("group_by_key h b", key="string", value="string"),
        do("cogroup x g", aggregator=APPENDED),
        do("cogroup y x h", aggregator=BEFORE),
    ]
    on = "y"
    if windows is not None:
        found.append(do("windowed_by w y", windows=windows))
        on = "w"
    merger = MERGED if windows is not None and windows["kind"] == "session" else None
    return [*found, do(f"aggregate c {on}", initial=["text", "0"], merger=merger, materialized=stored("string"))]


def _three_groups() -> Calls:
    """Groups `ga`, `gb` and `gc` of three streams."""
    found: Calls = []
    for each in "abc":
        found.append(do(f"stream {each}", topic=each.upper()))
        found.append(do(f"group_by_key g{each} {each}", key="string", value="string"))
    return found


def _rekeyed(*names: str) -> Calls:
    """A stream of new keys, and groups of it."""
    keyed = [do("stream a", topic="A"), do("select_key n a", to=["end", "value", 1])]
    return [*keyed, *(do(f"group_by_key {each} n", key="string", value="string") for each in names)]


def _cogroups_of_one_group(config: dict[str, str] | None) -> dict[str, Any]:
    return spec(
        [
            *_rekeyed("g"),
            do("cogroup x g", aggregator=APPENDED),
            do("aggregate c x", initial=["text", "0"], materialized=stored("string", name="first")),
            do("cogroup y g", aggregator=BEFORE),
            do("aggregate d y", initial=["text", "1"], materialized=stored("string", name="second")),
            *table_out("c"),
            *table_out("d", topic="out2"),
        ],
        PAIRS,
        config,
    )


def _self_join(streams: int, windows: dict[str, int]) -> Calls:
    """A join of one stream, or of two of one topic, with itself."""
    other = "a" if streams == 1 else "b"
    seconds = [] if streams == 1 else [do("stream b", topic="A")]
    join = do(
        f"join j a {other}", joiner=LEFT_RIGHT, windows=windows, key="string", left="string", right="string"
    )  # fmt: skip
    return [do("stream a", topic="A"), *seconds, join, *out("j", "string", "string")]


def _suppressed_join(side: str) -> Calls:
    """A table that is held back joins one that is not."""
    pair = "s r" if side == "left" else "r s"
    return [
        do("table c", topic="A", key="string", value="string"),
        do("table r", topic="B", key="string", value="string"),
        do("suppress s c", until="time_limit", limit_ms=10),
        do(f"join j {pair}", joiner=LEFT_RIGHT),
        *table_out("j"),
    ]


def _final(windows: dict[str, Any]) -> Calls:
    return [*_cogrouped(windows), do("suppress s c", until="window_closes"), *table_out("s")]


def _merged_and_counted(config: dict[str, str] | None) -> dict[str, Any]:
    """A merge of new keys that two aggregations read: RepartitionWithMergeOptimizingTest."""
    return spec(
        [
            do("stream a", topic="A"),
            do("map x a", to=[["end", "value", 1], "value"]),
            do("stream b", topic="B"),
            do("map y b", to=[["end", "value", 1], "value"]),
            do("merge m x y"),
            do("group_by_key g m", key="string", value="string"),
            do("count c g", materialized=stored("long")),
            do("reduce d g", reducer=APPENDED, materialized=stored("string")),
            *table_out("c", "long"),
            *table_out("d", topic="out2"),
        ],
        CLOSING,
        config,
    )


def _shared(config: dict[str, str] | None) -> dict[str, Any]:
    """Counts, a reduction of changed values, and a join below one stream of new keys: RepartitionOptimizingTest."""
    return spec(
        [
            do("stream a", topic="A"),
            do("map n a", to=[["end", "value", 1], "value"]),
            do("peek p n"),
            do("group_by_key g n", key="string", value="string"),
            do("count c g", materialized=stored("long")),
            do("map_values v n", to=["concat", "value", ["text", "!"]]),
            do("group_by_key h v", key="string", value="string"),
            do("reduce d h", reducer=APPENDED, materialized=stored("string")),
            do("to_stream s c"),
            do("join j n s", joiner=LEFT_RIGHT, windows=within(20), key="string", left="string", right="long"),
            *table_out("d", topic="out2"),
            *out("p", "string", "string", topic="out3"),
            *out("j", "string", "string"),
        ],
        PAIRS,
        config,
    )


def _in_memory(calls: Calls, inputs: str) -> dict[str, Any]:
    return spec(calls, inputs, IN_MEMORY)


def _joined(kind: str) -> Calls:
    streams = [do("stream a", topic="A"), do("stream b", topic="B")]
    options = {"windows": within(10, 10, 5), "key": "string", "left": "string", "right": "string"}
    return [*streams, do(f"{kind} j a b", joiner=LEFT_RIGHT, **options), *out("j", "string", "string")]


def _emitted(interval_ms: int) -> dict[str, Any]:
    calls = counted(time(10, 5), emit_final=True)
    inputs = "A k v 0; A l v 12; +4; A k v 16; A k v 27; +7; A l v 41; A k v 40; +1; A k v 55; A z z 70; A z z 200"
    return spec(calls, inputs, {"__emit.interval.ms.kstreams.windowed.aggregation__": str(interval_ms)})


SCENARIOS: dict[str, dict[str, Any]] = {
    **{
        f"a cogroup until {windows['kind']} windows close": spec(_final(windows), CLOSING)
        for windows in (time(10, 5), sliding(10, 5), session(5, 5))
    },
    "a suppressed table on the left of a join": spec(_suppressed_join("left"), CLOSING),
    "a suppressed table on the right of a join": spec(_suppressed_join("right"), CLOSING),
    "a large jump of time closes all windows": spec(
        [
            *grouped(),
            do("windowed_by w g", windows=time(2, 2)),
            do("count c w", materialized=stored("long")),
            do("suppress s c", until="window_closes"),
            *table_out("s"),
        ],
        "A k v 0; A k v 1; A k v 2; A k v 0; A l v 3; A k v 100000; A l v 5; A k v 100009",
    ),
    "windows emit at each record with an interval of 0": _emitted(0),
    "windows emit seldom with a long interval": _emitted(5),
    "windows that have not ended are not emitted": spec(
        counted(time(10, 5), emit_final=True), "A k v 0; A k v 5; A k v 9; A k v 14; A k v 15; A k v 3"
    ),
    "a cogroup of three streams": spec(
        [
            *_three_groups(),
            do("cogroup x ga", aggregator=APPENDED),
            do("cogroup y x gb", aggregator=BEFORE),
            do("cogroup z y gc", aggregator=["if", ["equal", "value", ["text", "c2"]], None, APPENDED]),
            do("aggregate c z", initial=["text", "0"], materialized=stored("string")),
            *table_out("c"),
        ],
        THREE,
    ),
    "a group twice in one cogroup": spec(
        [
            *_rekeyed("g"),
            do("cogroup x g", aggregator=APPENDED),
            do("cogroup y x g", aggregator=BEFORE),
            do("aggregate c y", initial=["text", "0"], materialized=stored("string")),
            *table_out("c"),
        ],
        PAIRS,
    ),
    "two cogroups of one group": _cogroups_of_one_group(None),
    "two cogroups of one group with optimization": _cogroups_of_one_group(OPTIMIZED),
    "two groups of one stream in a cogroup with optimization": spec(
        [
            *_rekeyed("g", "h"),
            do("cogroup x g", aggregator=APPENDED),
            do("cogroup y x h", aggregator=BEFORE),
            do("aggregate c y", initial=["text", "0"], materialized=stored("string")),
            *table_out("c"),
        ],
        PAIRS,
        OPTIMIZED,
    ),
    "a cogroup joined with a table": spec(
        [
            *_cogrouped(),
            do("table t", topic="C", key="string", value="string"),
            do("left_join j c t", joiner=LEFT_RIGHT),
            *table_out("j"),
        ],
        THREE,
    ),
    "two streams of one topic joined": spec(_self_join(2, within(10)), PAIRS),
    "two streams of one topic joined with optimization": spec(_self_join(2, within(10)), PAIRS, OPTIMIZED),
    "a stream joined with itself in times that only precede, with optimization": spec(
        _self_join(1, within(10, 0)), PAIRS, OPTIMIZED
    ),
    "a stream joined with itself in times that only follow, with optimization": spec(
        _self_join(1, within(0, 10)), PAIRS, OPTIMIZED
    ),
    "a merge of new keys, aggregated twice": _merged_and_counted(None),
    "a merge of new keys, aggregated twice, with optimization": _merged_and_counted(OPTIMIZED),
    "a stream of new keys, counted, changed and joined": _shared(None),
    "a stream of new keys, counted, changed and joined, with optimization": _shared(OPTIMIZED),
    **{f"{kind} with stores in memory": _in_memory(_joined(kind), CLOSING) for kind in ("join", "left_join")},
    "outer_join with stores in memory": _in_memory(_joined("outer_join"), CLOSING),
    "sessions with stores in memory": _in_memory(counted(session(5, 5)), PAIRS),
    "counts with stores in memory": _in_memory([*grouped(), do("count c g"), *table_out("c", "long")], PAIRS),
    "three tables joined with a small cache": spec(
        [
            *(do(f"table {each}", topic=each.upper(), key="string", value="string") for each in "abc"),
            do("left_join x a b", joiner=LEFT_RIGHT),
            do("left_join y x c", joiner=LEFT_RIGHT, materialized=stored("string")),
            *table_out("y"),
        ],
        THREE,
        {"statestore.cache.max.bytes": "300"},
    ),
    "a table with equal rows": spec(
        [
            do("table a", topic="A", key="string", value="string", materialized=stored("string", name="rows")),
            *table_out("a"),
        ],
        "A k v 5; A k v 6; A k v 4; A k w 7; A k w 7; A k - 8; A k - 9",
    ),
    "a filter in front of a group of a table": spec(
        [
            do("table a", topic="A", key="string", value="string"),
            do("filter f a", predicate=["equal", ["end", "value", 1], ["text", "1"]]),
            do("group_by g f", to=["value", "key"], key="string", value="string"),
            do("reduce r g", reducer=APPENDED, subtractor=["concat", "value", ["text", "-"], "other"],
               materialized=stored("string")),
            *table_out("r"),
        ],
        PAIRS,
    ),
    "a foreign key joined twice": spec(
        [
            *(do(f"table {each}", topic=each.upper(), key="string", value="string") for each in "abc"),
            do("left_join x a b", foreign_key="value", joiner=LEFT_RIGHT, materialized=stored("string")),
            do("join y x c", joiner=LEFT_RIGHT),
            *table_out("y"),
        ],
        "A k p 0; B p b1 1; C k c1 2; B p b2 3; A k q 4; B q b3 5; C k - 6; C k c2 7; A k - 8; B q - 9",
    ),
}  # fmt: skip
