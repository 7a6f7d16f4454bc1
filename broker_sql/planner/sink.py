"""Sinks: the result of a query into its topic."""

from __future__ import annotations

from broker_sql.analysis import serdes
from broker_sql.catalog import SourceInfo
from broker_sql.planner import lineage
from broker_sql.planner.stage import Stage
from broker_sql.planner.timestamps import SetTimestamp, reader


def written(stage: Stage, sink: SourceInfo) -> None:
    """Write the rows of a stage, which are the value columns of the sink."""
    settings = stage.context.settings
    stream = stage.table.to_stream() if stage.is_table else stage.stream
    read = reader(sink, settings)
    if read is not None:
        setter = lineage.declare(lambda: SetTimestamp(read), value={lineage.EVERY: "value"})
        stream = stream.process_values(setter, name=f"ApplyTimestampTransform-{sink.name}")
    stream.to(
        sink.topic,
        key=serdes.source_key_serde(sink),
        value=serdes.source_value_serde(sink),
    )
