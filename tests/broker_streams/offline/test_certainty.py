"""Which comparison of results is meaningful for a topology."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from broker_streams import STRING, JoinWindows, StreamsBuilder, TimeWindows
from broker_streams.kernel.settings import TaskSettings
from broker_streams.offline.certainty import Certainties, Level
from broker_streams.offline.results import ANY_PARTITION, Results, Row, Side
from broker_streams.offline.runner import Result, Runner

CONFIG = {"application.id": "app", "default.key.serde": STRING, "default.value.serde": STRING}
Build = Callable[[StreamsBuilder], Any]


def counted(builder: StreamsBuilder) -> Any:
    return builder.stream("in").group_by_key().count().to_stream()


def joined(builder: StreamsBuilder) -> Any:
    return builder.stream("in").join(builder.stream("other"), lambda one, other: one, JoinWindows.of(5))


@pytest.mark.parametrize(
    ("build", "cache", "level", "reason"),
    [
        (lambda builder: builder.stream("in").filter(lambda key, value: True), 0, Level.RECORDS, ""),
        (lambda builder: builder.stream("in").merge(builder.stream("other")), 0, Level.CONTENTS, "several topics"),
        (lambda builder: builder.stream("in").repartition(), 0, Level.CONTENTS, "repartition topic"),
        (counted, 0, Level.RECORDS, ""),
        (counted, 1 << 20, Level.LAST, "caches"),
        (lambda b: b.stream("in").group_by(lambda key, value: value).count().to_stream(), 0, Level.LAST, "order"),
        (
            lambda b: b.stream("in").group_by(lambda k, v: v).windowed_by(TimeWindows.of(5)).count().to_stream(),
            0, Level.LAST, "came late",
        ),
        (lambda b: b.table("in").join(b.table("other"), lambda one, other: one).to_stream(), 0, Level.LAST, "joined"),
        (lambda b: b.stream("in").left_join(b.table("other"), lambda one, other: one), 0, Level.NOTHING, "arrived"),
        (joined, 0, Level.NOTHING, "arrived"),
    ],
)  # fmt: skip
def test_the_certainty_of_results(build: Build, cache: int, level: Level, reason: str) -> None:
    """If this fails, legitimate results count as wrong, or wrong ones as legitimate."""
    config = {**CONFIG, "statestore.cache.max.bytes": cache}
    builder = StreamsBuilder()
    made = build(builder)
    made.to("out", **({"key": STRING} if level is not None else {}))
    plan = builder.build(config).plan
    found = Certainties(plan, TaskSettings.of(config), uses_clock=False)
    certainty = found.topics()["out"]
    assert (certainty.level, reason in certainty.reason) == (level, True), certainty
    assert all(each.level <= min(level, Level.LAST) for each in found.changelogs().values())
    clocked = Certainties(plan, TaskSettings.of(config), uses_clock=True)
    assert clocked.topics()["out"].level == level


class Arriving(Runner):
    """Tasks process their records as these arrive, in one of many orders, instead of in the order of timestamps."""

    draw = random.Random(0)

    def _choose(self) -> tuple[Any, int]:
        waiting = [each for each in self._running if each.task.next_time_ms() is not None]
        return (self.draw.choice(waiting), -1) if waiting else (None, -1)


def computed(kind: type[Runner], plan: Any, config: dict[str, Any]) -> list[Result]:
    """The records of topic `out` for the same inputs."""
    draw = random.Random(7)
    counts = {"in": 3, "other": 3, "out": 2}
    runner = kind(plan, TaskSettings.of(config), counts)
    left: dict[tuple[str, int], list[Any]] = {}
    for place in runner.inputs:
        times = sorted(draw.randrange(500) for _ in range(60))
        left[place] = [
            (b"%d-%d" % (place[1], draw.randrange(4)), draw.choice((b"x", b"y")), at, offset, ())
            for offset, at in enumerate(times)
        ]
    while wanted := runner.wanted():
        for place in wanted:
            if left[place]:
                runner.add(*place, left[place][:5])
                del left[place][:5]
            else:
                runner.finish(*place)
        runner.run()
    return [each for each in runner.take() if each.topic == "out"]


@pytest.mark.parametrize(
    "build",
    [
        lambda builder: builder.stream("in").filter(lambda key, value: value == "x"),
        lambda builder: builder.stream("in").merge(builder.stream("other")),
        lambda builder: builder.stream("in").select_key(lambda key, value: value).repartition(),
        lambda b: b.stream("in").group_by_key().count().map_values(str).to_stream(),
        lambda b: b.stream("in").group_by(lambda key, value: value).count().map_values(str).to_stream(),
        # Windows that stay open: no record is late.
        lambda b: (
            b.stream("in").group_by(lambda k, v: v).windowed_by(TimeWindows.of(50).grace("1h")).count()
            .map_values(str).to_stream().select_key(lambda window, count: f"{window.key}{window.window.start_ms}")
        ),
        lambda b: (
            b.table("in").join(b.table("other"), lambda one, other: one + other).to_stream()
        ),
        lambda b: (
            b.table("in").group_by(lambda key, value: (value, key)).count().map_values(str).to_stream()
        ),
    ],
)  # fmt: skip
def test_the_certainty_holds_in_any_order_of_arrival(build: Build) -> None:
    """If this fails, a correct application is blamed for the order in which its records arrived."""
    config = {**CONFIG, "statestore.cache.max.bytes": 0}
    builder = StreamsBuilder()
    build(builder).to("out", key=STRING, value=STRING)
    plan = builder.build(config).plan
    level = Certainties(plan, TaskSettings.of(config), uses_clock=False).topics()["out"].level
    expected = computed(Runner, plan, config)
    assert expected
    owners: dict[int | None, set[tuple[int, int]]] = {}
    for each in expected:
        owners.setdefault(each.partition, set()).add(each.task)
    for seed in range(4):
        Arriving.draw = random.Random(seed)
        with Results() as results:
            for side, found in ((Side.OLD, expected), (Side.NEW, computed(Arriving, plan, config))):
                rows = [Row(ANY_PARTITION if each.partition is None else each.partition, *each[3:7]) for each in found]
                results.add(side, "out", rows)
            if level is Level.LAST:
                assert list(results.finals("out")) == []
            else:
                assert list(results.contents("out")) == []
            if level is Level.RECORDS:
                assert [number for number in results.orders("out") if len(owners[number]) == 1] == []


@pytest.mark.parametrize(
    ("build", "level", "streams"),
    [
        (lambda builder: builder.stream("in"), Level.NOTHING, ["in"]),
        (lambda builder: builder.table("in").to_stream(), Level.LAST, []),
        (lambda b: b.table("in").group_by(lambda k, v: (v, v)).count().to_stream(), Level.LAST, []),
        (lambda builder: builder.stream("in").left_join(builder.table("other"), lambda a, b: a), Level.NOTHING, ["in"]),
    ],
)
def test_compacted_inputs(build: Build, level: Level, streams: list[str]) -> None:
    """If this fails, records that compaction removed from an input count as results that are missing."""
    builder = StreamsBuilder()
    build(builder).to("out", key=STRING)
    found = Certainties(
        builder.build(CONFIG).plan, TaskSettings.of(CONFIG), uses_clock=False, compacted={"in", "other", "another"}
    )
    assert found.topics()["out"].level is level
    assert found.streams_of_compacted_topics() == streams


def test_a_count_of_a_tables_updates_is_not_determined() -> None:
    """If this fails, a legitimate number of updates counts as wrong."""
    builder = StreamsBuilder()
    counts = builder.stream("in").group_by(lambda key, value: value).count().to_stream()
    counts.group_by_key().count().to_stream().to("out", key=STRING)
    found = Certainties(builder.build(CONFIG).plan, TaskSettings.of(CONFIG), uses_clock=False)
    assert found.topics()["out"].level is Level.NOTHING
    assert "each update of a table" in found.topics()["out"].reason
