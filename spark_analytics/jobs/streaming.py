"""The streaming forms of `throughput` and `lag`: streams of the tables in, a stream of the same rows out, in append
mode.

Event time is `at`. A row of the result is final: it appears once, when the watermark (the latest `at` that was seen,
less the delay) has passed the end of its period. Later rows are left out and counted: `late_rows` reads their number
from the progress of a query, and `LateRows` adds it up while queries run.

The columns are those of `throughput.throughput` and `lag.lag`. `lag` differs from the batch in three points: minutes
are reported only when they are over; whether a group has members is not known; and it continues after the last commit,
because other partitions advance the watermark, while the batch ends with the last commit of the cluster.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pandas as pd
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout

from spark_analytics.jobs import lag as lag_job
from spark_analytics.jobs import throughput as throughput_job
from spark_analytics.jobs.lag_windows import (
    DEFAULTS,
    MINUTE_MS,
    OUTPUT,
    ROWS,
    TICKS_PER_MINUTE,
    UNKNOWN,
    Bounds,
    State,
    advance,
    follow,
    last_of_ticks,
)

_DELAY = re.compile(r"[0-9]+ (millisecond|second|minute|hour|day)s?")
# The state of a partition: the rows of `lag_windows.State` as an Arrow stream, its numbers (Spark 4.2's Python workers
# reject an array of them), and the first minute that is not reported.
_NUMBERS = State._fields[1:]
_STATE_SCHEMA = ", ".join(("rows binary", *(f"{name} bigint" for name in _NUMBERS), "minute bigint"))


def throughput(
    topic_rates: DataFrame, samples: DataFrame, watermark: str, period_ms: int = throughput_job.MINUTE_MS
) -> DataFrame:
    """Return the stream of `throughput.throughput`. `watermark` is the maximum delay of a row: "30 seconds".

    State: the collected values of a period (see there), for each topic and broker, until the watermark has passed it.
    """
    delay = _delay(watermark)
    return throughput_job.throughput(
        topic_rates.withWatermark("at", delay), samples.withWatermark("at", delay), period_ms
    )


def lag(commits: DataFrame, watermark: str, *, bounds: Bounds = DEFAULTS) -> DataFrame:
    """Return the stream of `lag.lag`. `watermark` is the maximum delay of a commit.

    State: for each partition the commits of the last two minutes, and the last of each group, for at most
    `bounds.carry_ms` after it.
    """
    rows = lag_job.rows_of(commits.withWatermark("at", _delay(watermark)), F.col("at"))
    found = rows.groupBy(*lag_job.KEYS).applyInPandasWithState(
        _stateful(bounds), lag_job.OUTPUT_SCHEMA, _STATE_SCHEMA, "append", GroupStateTimeout.EventTimeTimeout
    )
    return lag_job.output(found)


def late_rows(query: StreamingQuery) -> int:
    """Return the number of rows of a query that were left out because they were late, in the batches that it remembers
    (the last 100: spark.sql.streaming.numRecentProgressUpdates).

    For `throughput`, rows that one task of a batch has already added to the same period of the same topic count as one.
    """
    return sum(_late_of(each) for each in query.recentProgress)


def _late_of(progress: Any) -> int:
    found = progress["stateOperators"] if isinstance(progress, dict) else progress.stateOperators
    return sum(
        int(each["numRowsDroppedByWatermark"] if isinstance(each, dict) else each.numRowsDroppedByWatermark)
        for each in found
    )


class LateRows(StreamingQueryListener):
    """Counts late rows by the id of the query, for all queries of a session to which it is added:
    `spark.streams.addListener(LateRows())`. It forgets nothing, so its size is that of the number of queries.
    """

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}
        self._lock = threading.Lock()

    def of(self, query: StreamingQuery) -> int:
        """Return the late rows of a query so far."""
        with self._lock:
            return self._counts.get(str(query.id), 0)

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        """No row is late yet."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        """Add the rows that the batch left out."""
        with self._lock:
            name = str(event.progress.id)
            self._counts[name] = self._counts.get(name, 0) + _late_of(event.progress)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:
        """No batch, so no row was late."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        """The count remains, to be read after the end."""


def _delay(text: str) -> str:
    if not _DELAY.fullmatch(text):
        raise ValueError(
            f"a watermark of {text!r}: a whole number of milliseconds to days is needed, such as '30 seconds'"
        )
    return text


def _stateful(
    bounds: Bounds,
) -> Callable[[tuple[Any, ...], Iterable[pd.DataFrame], GroupState], Iterator[pd.DataFrame]]:
    def of_partition(
        key: tuple[Any, ...], batches: Iterable[pd.DataFrame], group_state: GroupState
    ) -> Iterator[pd.DataFrame]:
        # A timeout has no rows.
        new = [each[list(ROWS)] for each in batches if len(each)]
        state, minute = _restored(group_state)
        if new:
            state = _with_rows(state, pd.concat(new, ignore_index=True))
        if state is None:
            return
        watermark_ms = group_state.getCurrentWatermarkMs()
        # The minute that the watermark is in is not over.
        over = max(minute, watermark_ms // MINUTE_MS)
        until = over * TICKS_PER_MINUTE
        found = follow(state, until, bounds, minute)
        rest = advance(state, until, bounds)
        if rest is None:
            group_state.remove()
        else:
            group_state.update((_packed(rest.rows), *rest[1:], over))
            # The kept state must be evaluated again when the next minute is over, even without another commit.
            group_state.setTimeoutTimestamp(max((over + 1) * MINUTE_MS, watermark_ms + 1))
        if not found.empty:
            yield lag_job.with_keys(key, found[[name for name, _ in OUTPUT]])

    return of_partition


def _with_rows(state: State | None, new: pd.DataFrame) -> State:
    """Return the state with new rows."""
    added = new.assign(incarnation=UNKNOWN)
    if state is None:
        return State(last_of_ticks(added), int(new["tick"].min()))
    # Rows of one tick may arrive in several batches. Those before the state's first tick have their final incarnation.
    return state._replace(rows=last_of_ticks(pd.concat([state.rows, added], ignore_index=True)))


def _packed(rows: pd.DataFrame) -> bytes:
    table = pa.Table.from_pandas(rows, preserve_index=False)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    packed: bytes = sink.getvalue().to_pybytes()
    return packed


def _restored(group_state: GroupState) -> tuple[State | None, int]:
    """Return the state, and the first minute that is not reported."""
    if not group_state.exists:
        return None, 0
    packed, *numbers, minute = group_state.get
    rows = pa.ipc.open_stream(packed).read_pandas()
    return State(rows, *numbers), minute
