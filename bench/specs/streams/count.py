"""The number of records of each key in each minute."""

from broker_streams import LONG, STRING, StreamsBuilder, TimeWindows

builder = StreamsBuilder()
records = builder.stream("in", key=STRING, value=STRING)
counts = records.group_by_key().windowed_by(TimeWindows.of("1m")).count()
counts.to_stream().map(lambda window, count: (window.key, count)).to("out", key=STRING, value=LONG)
config = {"application.id": "count"}
