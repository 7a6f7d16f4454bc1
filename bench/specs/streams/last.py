"""The number of records of each key in each minute, behind the first 20 characters of the last value: the time at which
it was due. Each change is passed on.
"""

import os

from broker_streams import STRING, StreamsBuilder, TimeWindows
from broker_streams.dsl.materialized import Materialized

DUE = 20

builder = StreamsBuilder()
records = builder.stream(os.environ.get("STREAMS_IN", "in"), key=STRING, value=STRING)
counts = (
    records.group_by_key()
    .windowed_by(TimeWindows.of("1m"))
    .aggregate(
        lambda: "",
        lambda key, value, count: f"{value[:DUE]}{int(count[DUE:] or 0) + 1}",
        materialized=Materialized(key=STRING, value=STRING),
    )
)
counts.to_stream().map(lambda window, count: (window.key, count)).to(
    os.environ.get("STREAMS_OUT", "out"), key=STRING, value=STRING
)
config = {"application.id": "last", "statestore.cache.max.bytes": 0}
