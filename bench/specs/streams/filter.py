"""Values in capitals, without those of one key: no state. STREAMS_IN and STREAMS_OUT name other topics."""

import os

from broker_streams import STRING, StreamsBuilder

builder = StreamsBuilder()
records = builder.stream(os.environ.get("STREAMS_IN", "in"), key=STRING, value=STRING)
records.map_values(lambda value: value.upper()).filter(lambda key, value: key != "key-1").to(
    os.environ.get("STREAMS_OUT", "out"), key=STRING, value=STRING
)
config = {"application.id": "filter"}
