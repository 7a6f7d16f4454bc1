"""`suppress` in the DSL: how long, which buffer, which tables."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from broker_streams import KTable, Materialized, StreamsBuilder, Suppressed, TopologyError
from broker_streams.plan.steps.suppression import Suppress
from broker_streams.plan.stores import Store, StoreKind
from broker_streams.plan.topology import ProcessorNode
from broker_streams.plan.windows import TimeWindows


def windowed(builder: StreamsBuilder, topic: str, grace: str) -> KTable:
    return builder.stream(topic).group_by_key().windowed_by(TimeWindows.of("1m").grace(grace)).count()


def suppressed(builder: StreamsBuilder) -> tuple[Suppress, Store]:
    """The step and the buffer."""
    plan = builder.build().plan
    steps = [each.step for each in plan.nodes if isinstance(each, ProcessorNode) and isinstance(each.step, Suppress)]
    (store,) = (each for each in plan.stores if each.kind is StoreKind.SUPPRESSION_BUFFER)
    assert isinstance(steps[0], Suppress)
    return steps[0], store


def test_final_results_wait_for_the_grace_period() -> None:
    """If this fails, a window has two results, or waits for ever."""
    builder = StreamsBuilder()
    windowed(builder, "in", "10s").filter(lambda key, value: True).suppress(Suppressed.until_window_closes())
    step, store = suppressed(builder)
    assert step == Suppress("KTABLE-SUPPRESS-STATE-STORE-0000000005", 10_000, is_final=True)
    assert (store.name, store.persistent, store.logging) == (step.store, False, True)


def test_the_longest_grace_period_of_a_join_counts() -> None:
    """If this fails, the result of a join of windows is passed on before its rows are final."""
    builder = StreamsBuilder()
    joined = windowed(builder, "in", "10s").join(windowed(builder, "other", "30s"), max)
    joined.suppress(Suppressed.until_window_closes(max_records=5))
    step, _ = suppressed(builder)
    assert (step.wait_ms, step.max_records, step.emits_early) == (30_000, 5, False)


def test_a_name_is_that_of_the_node_and_of_its_buffer() -> None:
    """If this fails, the buffer of a named `suppress` is another one after a change of the application."""
    builder = StreamsBuilder()
    limit = Suppressed.until_time_limit("5s", max_bytes=100, name="slow", logging=False)
    table = builder.table("in").suppress(limit)
    # Kafka counts no call for a name here.
    assert (table.name, table.to_stream().name) == ("slow", "KTABLE-TOSTREAM-0000000003")
    step, store = suppressed(builder)
    assert step == Suppress("slow-store", 5_000, False, None, 100, emits_early=True)
    assert store.logging is False


WRONG: list[tuple[Callable[[], Any], type[Exception], str]] = [
    (lambda: Suppressed.until_time_limit(-1), ValueError, "at least 0"),
    (lambda: Suppressed.until_time_limit("1s", max_records=-1), ValueError, "max_records is -1"),
    (lambda: Suppressed.until_time_limit("1s", when_full="drop"), ValueError, "'drop'"),
    (lambda: Suppressed.until_window_closes(name="a/b"), TopologyError, "other characters"),
    (lambda: Suppressed.until_window_closes(logging=False, topic_config={"a": "b"}), ValueError, "topic_config"),
    (lambda: StreamsBuilder().table("in").suppress(Suppressed.until_window_closes()), TopologyError, "windowed"),
    (lambda: StreamsBuilder().table("in").suppress(None), TypeError, "None is no Suppressed"),  # type: ignore[arg-type]
]


@pytest.mark.parametrize(("call", "kind", "text"), WRONG)
def test_wrong_options_are_refused(call: Callable[[], Any], kind: type[Exception], text: str) -> None:
    """If this fails, an option that means nothing is taken in silence."""
    with pytest.raises(kind, match=text):
        call()


def test_versions_cannot_be_held_back() -> None:
    """If this fails, older versions of a row are lost in the buffer."""
    direct, above = StreamsBuilder(), StreamsBuilder()
    limit = Suppressed.until_time_limit("1s")
    with pytest.raises(TopologyError, match="not versioned"):
        direct.table("in", materialized=Materialized("rows", history="1h")).suppress(limit)
    table = above.table("in", materialized=Materialized("rows", history="1h"))
    table.map_values(lambda value: value).suppress(limit)
    with pytest.raises(TopologyError, match="not versioned"):
        above.build()
