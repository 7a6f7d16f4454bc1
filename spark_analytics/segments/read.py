"""Reads a range of offsets into Arrow batches, on an executor."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pyarrow as pa

from broker_cy.wire.columns import Columns
from spark_analytics.segments import report
from spark_analytics.segments.batches import fill
from spark_analytics.segments.options import Options
from spark_analytics.segments.plan import Range
from spark_analytics.segments.report import Counters

if TYPE_CHECKING:
    from broker_cy.wire.columns import Headers, Values

# The size of one Arrow batch, which Spark uses unchanged: small enough to stay in the cache of a core until it is sent.
ROWS_MAX = 16 << 10
BATCH_BYTES_MAX = 2 << 20


def read(
    wanted: Range, options: Options, schema: pa.Schema, counters: Counters | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield the records of a range. Figures are added to `counters`, and written to the directory of the option
    `report`.

    Raises DamageError for damage if the options do not skip it.
    """
    counters = Counters() if counters is None else counters
    rows = _Rows(wanted, options, schema, counters)
    try:
        for _ in fill(wanted, options, rows.columns, counters):
            yield rows.taken()
        if rows.columns.rows:
            yield rows.taken()
    finally:
        report.write(options.report, wanted.name, counters)


class _Rows:
    """The records of a range as Arrow batches."""

    def __init__(self, wanted: Range, options: Options, schema: pa.Schema, counters: Counters) -> None:
        self.columns = Columns(ROWS_MAX, BATCH_BYTES_MAX, options.include_headers)
        self._schema = schema
        self._counters = counters
        self._topics = pa.repeat(pa.scalar(wanted.topic, pa.string()), ROWS_MAX)
        self._partitions = pa.repeat(pa.scalar(wanted.partition, pa.int32()), ROWS_MAX)

    def taken(self) -> pa.RecordBatch:
        """Return and clear the records of the columns."""
        rows, keys, values, offsets, timestamps, types, headers = self.columns.take()
        self._counters.records += rows
        columns = [
            _binary(pa.binary(), rows, keys),
            _binary(pa.binary(), rows, values),
            self._topics.slice(0, rows),
            self._partitions.slice(0, rows),
            _fixed(pa.int64(), rows, offsets),
            _fixed(self._schema.field("timestamp").type, rows, timestamps),
            _fixed(pa.int32(), rows, types),
        ]
        if headers is not None:
            columns.append(_headers(self._schema.field("headers").type, rows, headers))
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)


def _fixed(kind: pa.DataType, rows: int, data: bytes) -> pa.Array:
    return pa.Array.from_buffers(kind, rows, [None, pa.py_buffer(data)], 0)


def _binary(kind: pa.DataType, rows: int, values: Values) -> pa.Array:
    valid, nulls, ends, data = values
    bits = pa.py_buffer(valid) if nulls else None
    return pa.Array.from_buffers(kind, rows, [bits, pa.py_buffer(ends), pa.py_buffer(data)], nulls)


def _headers(kind: pa.DataType, rows: int, headers: Headers) -> pa.Array:
    valid, nulls, ends, count, keys, values = headers
    struct = kind.value_type
    children = [_binary(pa.string(), count, keys), _binary(pa.binary(), count, values)]
    pairs = pa.Array.from_buffers(struct, count, [None], 0, 0, children)
    bits = pa.py_buffer(valid) if nulls else None
    return pa.Array.from_buffers(kind, rows, [bits, pa.py_buffer(ends)], nulls, 0, [pairs])
