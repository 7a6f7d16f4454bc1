"""The steps of committed offsets, and the wait of the first record of each step: functions on Arrow batches and numpy
arrays. `spark_analytics.jobs.end_to_end` defines a step.

The rows of one group and partition, in the order of time, become *runs*: consecutive rows that commit the same offset,
which is the highest so far. The change from one run to the next is a step. A rewound group commits lower offsets: these
say nothing about the record at the highest one, and are left out. A partition whose end goes back was created again and
starts over.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from spark_analytics.jobs.in_order import ID

# How often brokers report commits (broker_cy.telemetry.commit_sampler.PERIOD_S).
REPORT_MS = 1_000
MINUTE_MS = 60_000
# The value of unknown times.
UNKNOWN = -1
NAMES = ("cluster", "group", "topic")
# The columns that `minutes_of` reads, in this order of time: `at_ms`, `commit_ms`, `offset`. `record_ms` may be
# UNKNOWN.
NUMBERS = ("at_ms", "commit_ms", "offset", "record_ms", "end")
SCHEMA = (
    "cluster string, `group` string, topic string, minute_ms bigint, steps bigint, records bigint, "
    "latencies array<bigint>, over_max_ms bigint, bounds array<bigint>"
)
Numbers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


class Runs(NamedTuple):
    """Rows with the same offset: `offset`, the times of the first and the last commit, of the record there (UNKNOWN
    if no commit reported it), and of the last report that there was none (UNKNOWN if there is no such report). `key`
    is a hash of group and partition, and `end` the partition's end in the last row before the next run.
    """

    key: Numbers
    offset: Numbers
    first_ms: Numbers
    last_ms: Numbers
    record_ms: Numbers
    nothing_ms: Numbers
    end: Numbers


class Steps(NamedTuple):
    """One element for each step: `run` is the place of the run that it ends at, and `commit_ms` its first commit.
    `bound_ms` is known (not UNKNOWN) if `latency_ms` and `over_ms` are not.
    """

    run: npt.NDArray[np.intp]
    commit_ms: Numbers
    records: Numbers
    latency_ms: Numbers
    over_ms: Numbers
    bound_ms: Numbers


def runs_of(
    key: Numbers, at_ms: Numbers, commit_ms: Numbers, offset: Numbers, record_ms: Numbers, end: Numbers
) -> Runs:
    """Return rows as runs of one row each."""
    nothing_ms = np.where(record_ms == UNKNOWN, at_ms, UNKNOWN)
    return Runs(key, offset, commit_ms, commit_ms, record_ms, nothing_ms, end)


def merged(rows: Runs) -> tuple[Runs, npt.NDArray[np.intp], Flags]:
    """Return the runs of rows in the order of keys and time, the places of their first rows, and whether each one is
    the first of its partition (or of its partition since it was created again).
    """
    is_new = np.ones(len(rows.key), np.bool_)
    is_new[1:] = (np.diff(rows.key) != 0) | (np.diff(rows.end) < 0)
    firsts = np.flatnonzero(is_new)
    highest = np.empty_like(rows.offset)
    for start, stop in zip(firsts, [*firsts[1:], len(is_new)], strict=True):
        np.maximum.accumulate(rows.offset[start:stop], out=highest[start:stop])
    life = np.cumsum(is_new)
    here = np.flatnonzero(rows.offset == highest)
    offset, life = rows.offset[here], life[here]
    begins = np.ones(len(here), np.bool_)
    begins[1:] = (np.diff(life) != 0) | (np.diff(offset) != 0)
    starts = np.flatnonzero(begins)
    places = here[starts]
    # The last row before the next run, which may be a rewound one.
    lasts = np.append(places[1:], len(is_new)) - 1
    found = Runs(
        rows.key[places],
        offset[starts],
        np.minimum.reduceat(rows.first_ms[here], starts),
        np.maximum.reduceat(rows.last_ms[here], starts),
        np.maximum.reduceat(rows.record_ms[here], starts),
        np.maximum.reduceat(rows.nothing_ms[here], starts),
        rows.end[lasts],
    )
    is_first = np.ones(len(starts), np.bool_)
    is_first[1:] = np.diff(life[starts]) != 0
    return found, places, is_first


def steps_of(runs: Runs, is_first: Flags) -> Steps:
    """Return the steps between runs."""
    to = np.flatnonzero(~is_first)
    before = to - 1
    commit_ms, record_ms = runs.first_ms[to], runs.record_ms[before]
    known = record_ms != UNKNOWN
    latency_ms = np.maximum(commit_ms - record_ms, 0)
    since_ms = np.maximum(commit_ms - runs.last_ms[before], 0)
    over_ms = np.minimum(np.minimum(latency_ms, since_ms), REPORT_MS)
    bound_ms = np.maximum(commit_ms - runs.nothing_ms[before], 0)
    return Steps(
        to,
        commit_ms,
        runs.offset[to] - runs.offset[before],
        np.where(known, latency_ms, UNKNOWN),
        np.where(known, over_ms, UNKNOWN),
        np.where(known, UNKNOWN, bound_ms),
    )


def minutes_of(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Return rows of SCHEMA, one for each group, partition and minute (of those in a batch), from batches in order with
    ID, NAMES and NUMBERS.
    """
    carried: Runs | None = None
    names: list[pa.Array] = []
    for batch in batches:
        if not len(batch):
            continue
        key, *numbers = (batch.column(name).to_numpy() for name in (ID, *NUMBERS))
        rows, here = runs_of(key, *numbers), [batch.column(name) for name in NAMES]
        if carried is not None:
            # The last run of the previous batch continues, or ends with the first step of this batch.
            rows = Runs(*(np.concatenate(pair) for pair in zip(carried, rows, strict=True)))
            here = [pa.concat_arrays(pair) for pair in zip(names, here, strict=True)]
        runs, places, is_first = merged(rows)
        steps = steps_of(runs, is_first)
        if len(steps.run):
            yield _by_minute(steps, runs.key[steps.run], [each.take(pa.array(places[steps.run])) for each in here])
        last = places[-1]
        carried, names = Runs(*(column[-1:] for column in runs)), [each.slice(last, 1) for each in here]


def _by_minute(steps: Steps, key: Numbers, names: list[pa.Array]) -> pa.RecordBatch:
    """Return rows of SCHEMA."""
    minute = steps.commit_ms // MINUTE_MS
    order = np.lexsort((minute, key))
    key, minute = key[order], minute[order]
    begins = np.ones(len(order), np.bool_)
    begins[1:] = (np.diff(key) != 0) | (np.diff(minute) != 0)
    starts = np.flatnonzero(begins)
    firsts = pa.array(order[starts])
    columns: list[pa.Array] = [each.take(firsts) for each in names]
    columns += [
        pa.array(minute[starts] * MINUTE_MS),
        pa.array(np.diff(np.append(starts, len(order)))),
        pa.array(np.add.reduceat(steps.records[order], starts)),
        _lists(steps.latency_ms[order], starts),
        _or_null(np.maximum.reduceat(steps.over_ms[order], starts)),
        _lists(steps.bound_ms[order], starts),
    ]
    return pa.RecordBatch.from_arrays(columns, names=_COLUMNS)


_COLUMNS = [*NAMES, "minute_ms", "steps", "records", "latencies", "over_max_ms", "bounds"]


def _lists(values: Numbers, starts: npt.NDArray[np.intp]) -> pa.Array:
    """Return for each start the known values from there to the next start."""
    known = values != UNKNOWN
    before = np.append(0, np.cumsum(known))
    offsets = before[np.append(starts, len(values))].astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(values[known]))


def _or_null(values: Numbers) -> pa.Array:
    return pa.array(values, mask=values == UNKNOWN)
