"""Deliberate differences between this broker's responses and those of Apache Kafka 4.3.1, with reasons. Everything else
is equal.
"""

from __future__ import annotations

from tests.compat.differential.build import TIME_MS
from tests.compat.differential.deliberate_groups import GROUPS
from tests.compat.differential.difference import ABSENT, ANY, TEXT, Difference

_WORDS = "Kafka has no words here, or fewer: ours name the value at fault and what is allowed"
_CHECKED = "a topic here may check the schemas of its records, as in Confluent Server"
_MIRRORED = "a topic here may mirror a topic of another cluster"
_AT_ONCE = (
    "topics and partitions are made before the answer is sent, however short the timeout; Kafka answers "
    "REQUEST_TIMED_OUT where that leaves no time"
)
_GONE = (
    "segments below the log start offset are gone at once; Kafka counts and searches them until its next round of "
    "retention, minutes later"
)
_DELETED = "Kafka tells the offset of a record that was deleted; ours look only at records that are left"
_ABORTED = (
    "a commit that finds the transaction aborted, as after a timeout, only fences its producer, as in later versions "
    "of Kafka (KAFKA-20785); INVALID_TXN_STATE is fatal for clients"
)
_EMPTY = "the code for names that are not allowed; Kafka's handler fails on the empty one with UNKNOWN_SERVER_ERROR"

DELIBERATE: list[Difference] = [
    Difference("produce_*", "*.error_message", ABSENT, TEXT, _WORDS),
    Difference("producers_after_restart-*", "*.error_message", ABSENT, TEXT, _WORDS),
    Difference("delete_disabled-*", "*.error_message", ABSENT, TEXT, _WORDS),
    Difference("create_shapes-*: 10001 partitions", "*.error_message", TEXT, TEXT, _WORDS),
    Difference("create_shapes-*: many partitions", "*.error_message", TEXT, TEXT, _WORDS),
    Difference("create_*", "*.configs.confluent.*", ABSENT, ANY, _CHECKED),
    Difference("create_*", "*.configs.brokercy.mirror.*", ABSENT, ANY, _MIRRORED),
    Difference("coordinators-*: type *", "*.error_message", TEXT, TEXT, _WORDS),
    Difference("coordinators_of_others-v*: share*", "*.error_message", TEXT, TEXT, _WORDS),
    Difference("coordinators_of_others-v[4-6]: share*", "*.error_message", ABSENT, TEXT, _WORDS),
    *(
        Difference(f"create_names-*: timeout {what}", f".topics[0]{field}", theirs, ours, _AT_ONCE)
        for what in ("0", "negative")
        for field, theirs, ours in (
            (".error_code", 7, ABSENT),
            (".topic_id", ABSENT, TEXT),
            (".configs", ABSENT, ANY),
            (".num_partitions", ABSENT, 1),
            (".replication_factor", ABSENT, 1),
        )
    ),
    Difference("list_offsets_by_time-*: after deleting all: largest", "*", ANY, ABSENT, _DELETED),
    *(
        Difference(f"list_offsets_largest_left-*: {step}", f".topics[0].partitions[0].{field}", theirs, ours, _DELETED)
        for step, offsets, times_ms in (
            ("0 from 1", (0, 2), (TIME_MS + 9, TIME_MS + 5)),
            ("1 from 3", (2, 3), (TIME_MS + 2, TIME_MS - 5)),
        )
        for field, (theirs, ours) in (("offset", offsets), ("timestamp", times_ms))
    ),
    Difference("list_offsets_segments-*: time +0 after deleting", "*", ABSENT, ANY, _GONE),
    Difference("log_dirs_segments-*", "*.partition_size", 595, 357, _GONE),
    Difference("log_dirs_segments-*", "*.partition_size", 595, ABSENT, _GONE),
    Difference("end_transactions-v5: *: abort, the other end", ".error_code", 48, 90, _ABORTED),
    Difference("end_transactions-v5: aborted: commit, older epoch", ".error_code", 48, 90, _ABORTED),
    Difference("timed_out-v5: commits*", ".error_code", 48, 90, _ABORTED),
    Difference("topic_partitions-v0: name: empty", "*.error_code", -1, 17, _EMPTY),
    Difference("topic_partitions-v0: name: empty", "*.topic_authorized_operations", ABSENT, 3576, _EMPTY),
    *GROUPS,
]
