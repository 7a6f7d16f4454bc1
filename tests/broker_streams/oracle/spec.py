"""The language of specs: a topology, its configuration and its input as JSON, run by Kafka Streams and by us.

A spec has these fields; only `calls` is required:

    calls           calls of the DSL in their order, see below
    config          settings by their names; application.id is `app`, both default serdes are String
    wall_clock_ms   the wall clock at the start (0)
    inputs          in their order: {"topic", "key", "value", "at", "headers"} or {"advance_ms"} for the wall clock

Keys and values of inputs: a text is a String, a number a Long of 8 bytes, null is null, {"hex": "00ff"} are other
bytes. `at` is the timestamp in ms, headers are [name, hex or null].

A call is {"call", "id", "on", ...}: `id` names its result, `on` the object that it is called on, `with` a second
one. Serdes (`key`, `value`, `left`, `right`) are "string", "long" or absent. A `name` is Kafka's Named, or the name in
Grouped, Joined, ...; where serdes and names share an option object of Kafka (group_by, group_by_key) give both serdes.

    builder   stream {topic or topics or pattern, key, value, name, timestamp: E}
              table, global_table {topic, key, value, name, materialized}
              add_state_store {kind, name, key, value, persistent, caching, logging, retention_ms, window_ms,
                  history_ms}
    stream    filter, filter_not {predicate: C}           map {to: [E, E]}           select_key {to: E}
              map_values {to: E, with_key}                flat_map {to: [[E, E, C?], ...]}
              flat_map_values {to: [E, ...], with_key}    merge {with}               peek, foreach
              split {name, branches: [{id, predicate, name}], default: {id, name}}
              repartition {key, value, name, partitions}  to {topic or topic_of: E, key, value, name}
              to_table {name, materialized}               group_by {to: E, key, value, name}
              group_by_key {key, value, name}             process {stores, update: E, emit: E, punctuate, step_ms, name}
              process_values {stores, update: E, emit: E, name}
              join, left_join, outer_join {with: a stream, joiner: E, windows: {before_ms, after_ms, grace_ms},
                  key, left, right, name, store, logging}
              join, left_join {with: a table, joiner, key, left, right, name, grace_ms}
              join, left_join {with: a global table, select: E, joiner, name}
    group     count, reduce {reducer: E}, aggregate {initial: E, aggregator: E, merger: E of sessions}
              cogroup {aggregator}                        windowed_by {windows}
    windowed  the same, and emit_strategy {strategy: on_window_close or on_window_update}
    cogroup   cogroup {with: a group, aggregator}, windowed_by, aggregate {initial, merger}
    table     filter, filter_not, map_values              to_stream {to: E}
              transform_values {to: E}
              group_by {to: [E, E], key, value, name}; then count, reduce {reducer, subtractor},
                  aggregate {initial, aggregator, subtractor}
              join, left_join, outer_join {with, joiner, name, materialized}
              join, left_join {with, foreign_key: E, joiner, name, materialized}
              suppress {until: window_closes or time_limit, limit_ms, max_records, max_bytes, full: emit or shutdown,
                  name, logging}

Aggregations, table operations take `name` and `materialized`: {name, key, value, kind: persistent, memory or
versioned, caching, logging, retention_ms, history_ms}. `windows` of groups: {kind: time, size_ms, advance_ms,
grace_ms}, {kind: sliding, difference_ms, grace_ms}, {kind: session, gap_ms, grace_ms}, {kind: unlimited, start_ms}.

`process`, and `process_values` with a store of rows, updates the row of its first store with `update` (other: the old
row; null deletes it), and forwards `emit` (other: the new row). `punctuate` is a list of {type: stream_time or
wall_clock, interval_ms, action: emit, emit_and_clear or tick}. A window store has one row for each `step_ms` (10).

Functions are expressions E and conditions C (functions.py). Their variables:

    key, value               of the record, also in `foreign_key`, `select`, `timestamp` (other: the last timestamp)
    value, other             left and right of a joiner; old and new value of a reducer; of a subtractor of reduce:
                             the aggregate and the old value; both sessions of a merger
    value, other             the new value and the aggregate of an aggregator, the old value and the aggregate of a
                             subtractor of aggregate

An answer has these fields:

    description     Topology.describe() as text
    records         for each input the produced records, changelogs too: [topic, partition, key, value, at, headers],
                    keys and values in hex
    stores          rows of each store in its order, [key, value]; null for a kind without reads
    dropped         dropped-records-total
    error           {at: build, start, close or the number of an input; class, message, cause, cause_message}; later
                    inputs are left out
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Spec = Mapping[str, Any]
Answer = Mapping[str, Any]
