"""The lag of one partition's groups, minute by minute, from the commits that were reported: pure functions on pandas
frames.

The console samples each group every 10 s, and judges the last 12 samples (`broker_cy.admin.lag_history`). Here, the
same samples are made from the commits: one at the end of each tick of 10 s, with the values known then. A group's last
commit is carried forward; the end of the partition is the highest that any group's commit has reported.

`follow` continues from a `State`, so that a stream continues where its last batch ended: it only needs the rows of the
last window, and the last row of each group.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from broker_cy.admin.lag import Sample, Status, judge, time_lag_ms
from broker_cy.admin.lag_history import SAMPLES_MAX

TICK_MS = 10_000
MINUTE_MS = 60_000
TICKS_PER_MINUTE = MINUTE_MS // TICK_MS
# Reports of several groups, and of several brokers, are not exactly in the order in which they read the end of the
# partition. A lower end that is reported later than this means that the topic was created again.
SETTLE_MS = 5_000
UNKNOWN = -1
# Minutes whose samples are in memory as objects at the same time: those of a day.
_JUDGED_AT_ONCE = 1_440
# The columns of `rows`: the last commit of a group in a tick, and the number of commits reported in it. Unknown times
# and timestamps are UNKNOWN.
ROWS = ("group", "tick", "at_ms", "committed", "commit_ms", "record_ms", "end", "commits")
OUTPUT = (
    ("group", "string"),
    ("minute_ms", "bigint"),
    ("sampled_ms", "bigint"),
    ("committed", "bigint"),
    ("end", "bigint"),
    ("lag_records", "bigint"),
    ("lag_max_records", "bigint"),
    ("time_lag_ms", "bigint"),
    ("time_lag_max_ms", "bigint"),
    ("commits", "bigint"),
    ("commit_ms", "bigint"),
    ("idle_ms", "bigint"),
    ("end_age_ms", "bigint"),
    ("status", "string"),
    ("abandoned", "boolean"),
    ("incarnation", "bigint"),
)
Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Bounds:
    """`abandoned_after_ms`: a group that has not committed for longer, while the end moved, is abandoned. `carry_ms`:
    the time for which its last commit is carried forward. `end_age_max_ms`: the time for which the end of a partition
    counts as known after a report.
    """

    abandoned_after_ms: int = 600_000
    carry_ms: int = 86_400_000
    end_age_max_ms: int = 600_000

    def __post_init__(self) -> None:
        for name in ("abandoned_after_ms", "carry_ms", "end_age_max_ms"):
            if getattr(self, name) < TICK_MS:
                raise ValueError(
                    f"{name} is {getattr(self, name)}: it must be at least {TICK_MS}, the time between samples"
                )


DEFAULTS = Bounds()


class State(NamedTuple):
    """The data that `follow` needs of the ticks before `tick`: the last end report (`reported`, a tick; UNKNOWN without
    one) with its time, the highest end then and one report before, and the number of times that the topic was created
    again. `rows` has ROWS and `incarnation`, UNKNOWN for those that are at `tick` or later.
    """

    rows: pd.DataFrame
    tick: int
    reported: int = UNKNOWN
    reported_ms: int = 0
    highest: int = 0
    highest_before: int = 0
    incarnation: int = 0


class _Ends(NamedTuple):
    """The reports of ends by tick; the first one is that of the State."""

    ticks: Numbers
    at_ms: Numbers
    highest: Numbers
    before: Numbers
    incarnations: Numbers


class _Samples(NamedTuple):
    """The samples of a group in the order of time: `own` is the index of its row, `start` that of the window's
    first.
    """

    ticks: Numbers
    own: Numbers
    ends: Numbers
    incarnations: Numbers
    ages_ms: Numbers
    starts: Numbers


def last_of_ticks(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the last row of each group and tick, with the sum of their `commits`, in the order of time."""
    ordered = rows.sort_values(["group", "tick", "at_ms"], kind="stable")
    counts = ordered.groupby(["group", "tick"], sort=False)["commits"].transform("sum")
    return ordered.assign(commits=counts).drop_duplicates(["group", "tick"], keep="last").reset_index(drop=True)


def new_state(rows: pd.DataFrame) -> State:
    """Return the state before the first row; `rows` has at least one."""
    return State(rows.assign(incarnation=UNKNOWN), int(rows["tick"].min()))


def follow(
    state: State,
    until: int,
    bounds: Bounds,
    from_minute: int = 0,
    members: dict[str, tuple[Numbers, npt.NDArray[np.bool_]]] | None = None,
) -> pd.DataFrame:
    """Return the rows of OUTPUT of all minutes from `from_minute` (since 1970) on, with samples of ticks before
    `until`.

    `members` has, for each group, the times at which it gained its first member or lost its last one.
    """
    ends = _ends_of(state)
    rows = _with_incarnations(state, ends)
    found = []
    for group, own in rows.groupby("group", sort=True):
        of = own.sort_values("tick", kind="stable")
        samples = _samples_of(of, ends, max(int(of["tick"].iloc[0]), state.tick), until, bounds)
        if len(samples.ticks):
            known = None if members is None else members.get(str(group))
            found.append(_minutes_of(str(group), of, samples, bounds, from_minute, known))
    names = [name for name, _ in OUTPUT]
    return pd.concat(found, ignore_index=True)[names] if found else pd.DataFrame(columns=names)


def advance(state: State, until: int, bounds: Bounds) -> State | None:
    """Return the state from which minutes from tick `until` on can be computed; None if no group is carried forward."""
    ends = _ends_of(state)
    rows = _with_incarnations(state, ends)
    # Not after `until`: rows between it and the first known one may still arrive.
    boundary = min(until, max(state.tick, until - SAMPLES_MAX))
    past = rows[rows["tick"] < boundary].sort_values("tick", kind="stable").drop_duplicates("group", keep="last")
    # Without a later commit, a row is not carried to the next samples.
    past = past[(until - past["tick"]) * TICK_MS <= bounds.carry_ms]
    later = rows[rows["tick"] >= boundary].assign(incarnation=UNKNOWN)
    if past.empty and later.empty:
        return None
    at = int(np.searchsorted(ends.ticks, boundary, "left")) - 1
    return State(
        pd.concat([past, later], ignore_index=True),
        boundary,
        int(ends.ticks[at]),
        int(ends.at_ms[at]),
        int(ends.highest[at]),
        int(ends.before[at]),
        int(ends.incarnations[at]),
    )


def _ends_of(state: State) -> _Ends:
    """Return the highest end by tick. An end that is lower than an earlier report starts another incarnation."""
    rows = state.rows[state.rows["tick"] >= state.tick].sort_values(["tick", "at_ms", "end"], kind="stable")
    by_tick = rows.groupby("tick", sort=True)
    last = by_tick[["at_ms", "end"]].last()
    most = by_tick["end"].max()
    known = (state.reported, state.reported_ms, state.highest, state.highest_before, state.incarnation)
    # Filled row by row: a list of tuples would have ten times the size.
    values = np.empty((len(last) + 1, len(known)), dtype=np.int64)
    values[0] = known
    _, before_ms, highest, before, incarnation = known
    found = zip(last.index, last["at_ms"], last["end"], most, strict=True)
    for place, (tick, at_ms, end, top) in enumerate(found, 1):
        if end < (highest if at_ms - before_ms > SETTLE_MS else before):
            # Reports of the old incarnation in this tick do not count.
            highest, before, incarnation = end, 0, incarnation + 1
        else:
            highest, before = max(highest, top), highest
        before_ms = at_ms
        values[place] = tick, at_ms, highest, before, incarnation
    return _Ends(*values.T)


def _with_incarnations(state: State, ends: _Ends) -> pd.DataFrame:
    """Return the rows with the incarnation of the topic that their commits belong to."""
    rows = state.rows
    at = np.searchsorted(ends.ticks, rows["tick"].to_numpy(np.int64), "right") - 1
    found = ends.incarnations[at]
    began = np.concatenate(([False], np.diff(ends.incarnations) > 0))
    # In the tick in which a new incarnation began, a row with a higher end belongs to the old one.
    found = found - (began[at] & (rows["end"].to_numpy(np.int64) > ends.highest[at]))
    known = rows["incarnation"].to_numpy(np.int64)
    return rows.assign(incarnation=np.where(known == UNKNOWN, found, known))


def _samples_of(own: pd.DataFrame, ends: _Ends, start: int, until: int, bounds: Bounds) -> _Samples:
    """Return the samples of a group from tick `start` to before `until`. A sample is missing if its commit is too old
    or of an incarnation that has ended, or if the end of the partition is not known.
    """
    own_ticks, own_ends = own["tick"].to_numpy(np.int64), own["end"].to_numpy(np.int64)
    own_lives = own["incarnation"].to_numpy(np.int64)
    # No sample is valid beyond these, even if `until` is far away.
    last = min(own_ticks[-1] + bounds.carry_ms // TICK_MS, ends.ticks[-1] + bounds.end_age_max_ms // TICK_MS)
    ticks = np.arange(start, max(start, min(until, int(last) + 1)), dtype=np.int64)
    at = np.searchsorted(own_ticks, ticks, "right") - 1
    end_at = np.searchsorted(ends.ticks, ticks, "right") - 1
    is_new = own_ticks[at] == ticks
    alive = own_lives[at] == ends.incarnations[end_at]
    age = ticks - ends.ticks[end_at]
    known = (age * TICK_MS <= bounds.end_age_max_ms) & ((ticks - own_ticks[at]) * TICK_MS <= bounds.carry_ms)
    valid = known & (alive | is_new)
    highest = np.where(alive, np.maximum(own_ends[at], ends.highest[end_at]), own_ends[at])
    # A gap, or another incarnation, starts another window: the console forgets a partition that was deleted, too.
    kept = np.flatnonzero(valid)
    lives = own_lives[at][kept]
    is_first = np.ones(len(kept), dtype=bool)
    is_first[1:] = (np.diff(kept) > 1) | (np.diff(lives) != 0)
    places = np.arange(len(kept), dtype=np.int64)
    runs = np.maximum.accumulate(np.where(is_first, places, 0))
    starts = np.maximum(runs, places - (SAMPLES_MAX - 1))
    ages_ms = np.where(is_new, 0, age)[kept] * TICK_MS
    return _Samples(ticks[kept], at[kept], highest[kept], lives, ages_ms, starts)


def _minutes_of(
    group: str,
    own: pd.DataFrame,
    samples: _Samples,
    bounds: Bounds,
    from_minute: int,
    members: tuple[Numbers, npt.NDArray[np.bool_]] | None,
) -> pd.DataFrame:
    """Return a row for each minute: its last sample, judged over the window that ends with it."""
    columns = {name: own[name].to_numpy(np.int64)[samples.own] for name in ROWS if name != "group"}
    at_ms = (samples.ticks + 1) * TICK_MS
    lags = np.maximum(0, samples.ends - columns["committed"])
    minutes = samples.ticks // TICKS_PER_MINUTE
    firsts = np.flatnonzero(np.concatenate(([True], np.diff(minutes) > 0)))
    lasts = np.append(firsts[1:], len(minutes)) - 1
    worst = np.maximum.reduceat(lags, firsts)
    is_new = columns["tick"] == samples.ticks
    commits = np.add.reduceat(np.where(is_new, columns["commits"], 0), firsts)
    wanted = minutes[lasts] >= from_minute
    worst, commits, lasts = worst[wanted], commits[wanted], lasts[wanted]

    lag, now, record = lags[lasts], at_ms[lasts], columns["record_ms"][lasts]
    exact = [
        time_lag_ms(int(unread), None if stamp == UNKNOWN else int(stamp), int(then))
        for unread, stamp, then in zip(lag, record, now, strict=True)
    ]
    # At the time of the report, no record was at the committed offset.
    bound = np.where(lag == 0, 0, now - columns["at_ms"][lasts])
    statuses = _statuses(columns, at_ms, samples, lags, lasts, members)
    idle = np.maximum(0, now - columns["commit_ms"][lasts])
    moved = samples.ends[lasts] > columns["end"][lasts]
    return pd.DataFrame(
        {
            "group": group,
            "minute_ms": minutes[lasts] * MINUTE_MS,
            "sampled_ms": now,
            "committed": columns["committed"][lasts],
            "end": samples.ends[lasts],
            "lag_records": lag,
            "lag_max_records": worst,
            "time_lag_ms": pd.array(exact, dtype="Int64"),
            "time_lag_max_ms": [
                int(most) if known is None else known for known, most in zip(exact, bound, strict=True)
            ],
            "commits": commits,
            "commit_ms": columns["commit_ms"][lasts],
            "idle_ms": idle,
            "end_age_ms": samples.ages_ms[lasts],
            "status": [each.name for each in statuses],
            "abandoned": moved & (idle > bounds.abandoned_after_ms),
            "incarnation": samples.incarnations[lasts],
        }
    )


def _statuses(
    columns: dict[str, Numbers],
    at_ms: Numbers,
    samples: _Samples,
    lags: Numbers,
    lasts: Numbers,
    members: tuple[Numbers, npt.NDArray[np.bool_]] | None,
) -> list[Status]:
    """Return the status at each of the samples `lasts`."""
    found = [Status.OK] * len(lasts)
    behind = np.flatnonzero(lags[lasts] > 0)
    # The same as lag_history.Window.status. Most groups keep up, and their samples need not be built.
    for part in (behind[place : place + _JUDGED_AT_ONCE] for place in range(0, len(behind), _JUDGED_AT_ONCE)):
        first, end = int(samples.starts[lasts[part[0]]]), int(lasts[part[-1]]) + 1
        here = slice(first, end)
        numbers = (at_ms, columns["committed"], samples.ends, columns["commit_ms"])
        times, *others = (each[here].tolist() for each in numbers)
        known = [None] * len(times) if members is None else [_at(members, each) for each in times]
        made = list(map(Sample, times, *others, known))
        for place in part.tolist():
            last = int(lasts[place])
            found[place] = judge(made[int(samples.starts[last]) - first : last + 1 - first])
    return found


def _at(members: tuple[Numbers, npt.NDArray[np.bool_]], at_ms: int) -> bool | None:
    """Whether a group had members at a time; None before the first change that is known."""
    index = int(np.searchsorted(members[0], at_ms, "right")) - 1
    return bool(members[1][index]) if index >= 0 else None


def changes_of(changes: pd.DataFrame) -> dict[str, tuple[Numbers, npt.NDArray[np.bool_]]]:
    """Return the `members` of `follow` from rows of `group`, `at_ms` and `has_members`."""
    ordered = changes.sort_values("at_ms", kind="stable")
    return {
        str(group): (each["at_ms"].to_numpy(np.int64), each["has_members"].to_numpy(np.bool_))
        for group, each in ordered.groupby("group", sort=False)
    }
