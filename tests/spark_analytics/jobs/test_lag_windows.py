"""The samples of a partition's groups equal those of the console, even when they are computed piece by piece."""

from __future__ import annotations

import random

import pandas as pd
import pytest

from broker_cy.admin.group_lag import GroupLag, PartitionLag
from broker_cy.admin.lag import Status
from broker_cy.admin.lag_history import LagHistory
from broker_cy.admin.metadata import TopicPartition
from spark_analytics.jobs.lag_windows import (
    DEFAULTS,
    ROWS,
    TICK_MS,
    TICKS_PER_MINUTE,
    Bounds,
    State,
    advance,
    follow,
    last_of_ticks,
    new_state,
)
from tests.support.tiers import by_tier

SEEDS = by_tier(range(4), range(12))
TICKS = 240
PLACE = TopicPartition("t", 0)


def random_rows(seed: int) -> pd.DataFrame:
    """Return commits of three groups of one partition, with pauses, rewinds, groups that stop, and one that begins
    late. `d` only reports the end, every few seconds.
    """
    chosen = random.Random(seed)
    end = chosen.randrange(1_000)
    offsets = {"a": 0, "b": 0, "c": 0}
    stops = {"a": TICKS, "b": chosen.randrange(TICKS), "c": TICKS}
    pauses = dict.fromkeys(offsets, 0)
    rows = []
    for second in range(10 * TICKS):
        end += chosen.choice((0, 0, 3, 20)) if second // 300 % 3 else 0
        at_ms = second * 1_000 + 500
        if chosen.random() < 0.3 or not second:
            rows.append(("d", at_ms, end, end, -1))
        for group in offsets:
            if second < pauses[group] or second > 10 * stops[group] or (group == "c" and second < 400):
                continue
            if chosen.random() < 0.005:
                pauses[group] = second + chosen.choice((30, 100, 200))
            if chosen.random() < 0.3:
                step = chosen.choice((0, 5, 30, 200))
                offset = max(0, offsets[group] - 300) if chosen.random() < 0.02 else min(end, offsets[group] + step)
                offsets[group] = offset
                rows.append((group, at_ms, offset, end, at_ms - 3_000 if offset < end else -1))
    frame = pd.DataFrame(rows, columns=["group", "at_ms", "committed", "end", "record_ms"])
    return last_of_ticks(frame.assign(tick=frame["at_ms"] // TICK_MS, commit_ms=frame["at_ms"], commits=1)[list(ROWS)])


@pytest.mark.parametrize("seed", SEEDS)
def test_statuses_are_those_of_the_console(seed: int) -> None:
    """If this fails, the report shows another status of a group than the console then, from the same samples."""
    rows = random_rows(seed)
    found = follow(new_state(rows), TICKS, DEFAULTS)
    statuses = {(each.group, each.sampled_ms): (each.status, each.lag_records) for each in found.itertuples()}
    history, compared, seen = LagHistory(), 0, set()
    for tick in range(TICKS):
        at_ms = (tick + 1) * TICK_MS
        known = rows[rows["at_ms"] <= at_ms]
        last = known.drop_duplicates("group", keep="last")
        end = int(known["end"].max())
        history.note(
            [
                GroupLag(each.group, (PartitionLag(PLACE, int(each.committed), 0, end, commit_ms=int(each.commit_ms)),))
                for each in last.itertuples()
            ],
            at_ms,
        )
        if tick % TICKS_PER_MINUTE == TICKS_PER_MINUTE - 1:
            for group in last["group"]:
                status, lag = statuses.pop((group, at_ms))
                assert (status, lag) == (history.status(group).name, history.last(group)[PLACE].lag), (group, at_ms)
                seen.add(status)
                compared += 1
    assert not statuses
    assert compared > TICKS // TICKS_PER_MINUTE
    assert {Status.OK.name, Status.STOPPED.name} <= seen


@pytest.mark.parametrize("seed", SEEDS)
def test_a_state_is_enough_to_go_on(seed: int) -> None:
    """If this fails, a stream has other rows than the batch, because it forgets state that a later minute depends
    on.
    """
    rows = random_rows(seed)
    if seed % 2:
        # The topic is recreated in the middle.
        later = rows["tick"] >= TICKS // 2
        for name in ("committed", "end"):
            rows[name] -= later * int(
                rows.loc[later, name].min() if name == "committed" else rows.loc[later, "end"].min() - 9
            )
        rows["committed"] = rows["committed"].clip(0, rows["end"])
    bounds = Bounds(abandoned_after_ms=60_000, carry_ms=300_000, end_age_max_ms=120_000)
    whole = follow(new_state(rows), TICKS, bounds)
    assert whole["incarnation"].max() == seed % 2
    chosen = random.Random(seed)
    state: State | None = None
    pieces, minute, seen = [], 0, 0
    while minute < TICKS // TICKS_PER_MINUTE:
        over = min(TICKS // TICKS_PER_MINUTE, minute + chosen.randrange(4))
        # Some rows of the unfinished minute already exist.
        until = over * TICKS_PER_MINUTE + chosen.randrange(TICKS_PER_MINUTE)
        new = rows[(rows["tick"] >= seen) & (rows["tick"] < until)].assign(incarnation=-1)
        if state is None:
            state = State(new, int(new["tick"].min())) if len(new) else None
        else:
            state = state._replace(rows=pd.concat([state.rows, new], ignore_index=True))
        seen = max(seen, until)
        if state is not None:
            pieces.append(follow(state, over * TICKS_PER_MINUTE, bounds, minute))
            state = advance(state, over * TICKS_PER_MINUTE, bounds)
            assert state is None or len(state.rows) < 150
        minute = over
    joined = pd.concat([each for each in pieces if len(each)], ignore_index=True)
    order = ["group", "minute_ms"]
    pd.testing.assert_frame_equal(
        joined.sort_values(order).reset_index(drop=True),
        whole.sort_values(order).reset_index(drop=True),
        check_dtype=False,
    )


def test_reports_that_cross_each_other_are_no_new_topic() -> None:
    """If this fails, nearly simultaneous reports of two groups make a partition look deleted, and their windows are
    cut.
    """
    rows = pd.DataFrame(
        [
            ("a", 0, 9_900, 100, 9_900, -1, 105, 1),
            ("b", 1, 10_100, 100, 10_100, 10_000, 103, 1),
            ("a", 2, 29_000, 104, 29_000, 28_000, 106, 1),
        ],
        columns=list(ROWS),
    )
    found = follow(new_state(rows), 3, DEFAULTS).set_index("group")
    assert list(found["incarnation"]) == [0, 0]
    assert found.loc["b", "end"] == 106


@pytest.mark.parametrize("name", ["abandoned_after_ms", "carry_ms", "end_age_max_ms"])
def test_bounds_are_at_least_the_time_between_samples(name: str) -> None:
    """If this fails, a bound of 0 silently leaves out every row."""
    with pytest.raises(ValueError, match=f"{name} is 9999: it must be at least 10000"):
        Bounds(**{name: 9_999})
