"""The last value of each key: a store that has as many rows as the topic has keys."""

from broker_streams import BYTES, StreamsBuilder
from broker_streams.dsl.materialized import Materialized

builder = StreamsBuilder()
records = builder.stream("in", key=BYTES, value=BYTES)
records.group_by_key().reduce(lambda old, new: new, materialized=Materialized("state", key=BYTES, value=BYTES))
config = {"application.id": "state", "statestore.cache.max.bytes": 0}
