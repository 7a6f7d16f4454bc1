"""Values in capitals, without those of one key: no state."""

from broker_streams import STRING, StreamsBuilder

builder = StreamsBuilder()
records = builder.stream("in", key=STRING, value=STRING)
records.map_values(lambda value: value.upper()).filter(lambda key, value: key != "key-1").to(
    "out", key=STRING, value=STRING
)
config = {"application.id": "filter"}
