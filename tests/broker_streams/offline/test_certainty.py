"""Which comparison of results is meaningful for a topology."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from broker_streams import STRING, JoinWindows, StreamsBuilder, TimeWindows
from broker_streams.kernel.settings import TaskSettings
from broker_streams.offline.certainty import Certainties, Level

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
