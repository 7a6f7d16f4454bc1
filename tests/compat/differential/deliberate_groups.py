"""Deliberate differences in the answers about consumer, share and streams groups."""

from __future__ import annotations

from tests.compat.differential.difference import ABSENT, ANY, TEXT, Difference

_WORDS = "our words name the value at fault and what is allowed; Kafka has others, or none"
_SHORT = "members that a rebalance lets wait get a shorter heartbeat interval, so that the group is stable earlier"
_UNKNOWN_ID = "an unknown topic id is an error of its partitions; the handler of Kafka 4.3.1 fails on it"
_ACKS_FIRST = (
    "records that a ShareFetch releases may be in its own answer, as its acknowledgements come first; Kafka fetches at "
    "the same time"
)
_ENDPOINTS = (
    "the counter of endpoint information is kept from the heartbeat on that creates the group; Kafka loses it there, "
    "and sends the endpoints again"
)
_MALFORMED = (
    "a classic group with a malformed assignment cannot become a consumer group, as one with a malformed subscription; "
    "Kafka's handler fails on it"
)
_LATE = (
    "a share member that sends its previous epoch may have missed its assignment, and gets it; in Kafka it waits for "
    "the next one"
)
_BACKWARDS = "state batches that end before they begin are refused, whatever the state is; Kafka stores them"
_NOTHING_ASSIGNED = (
    "a classic group that becomes a consumer group assigns its partitions at once: its last generation may have "
    "assigned none, and Kafka waits for another change"
)
_HELD = "a group that becomes a classic one keeps what its members hold; Kafka writes what they were to get"

_STEPS = (
    "consumer_*",
    "consumers_*",
    "static_consumers_*",
    "sharers_*",
    "streams_*",
    "describe_with_*",
    "share_*",
    "unusual_*",
    "conversion_*",
    "hidden_topics_*",
)

GROUPS: list[Difference] = [
    *(Difference(step, "*error_message", theirs, TEXT, _WORDS) for step in _STEPS for theirs in (ABSENT, TEXT)),
    *(
        Difference(step, ".heartbeat_interval_ms", 5000, 500, _SHORT)
        for step in ("static_consumers_that_left-*", "conversion_*", "hidden_topics_*")
    ),
    *(
        Difference("share_fetches_with_unusual_values-*: *topics=unknown topic*", path, theirs, ours, _UNKNOWN_ID)
        for path, theirs, ours in (
            (".error_code", -1, ABSENT),
            (".responses", ABSENT, ANY),
            (".acquisition_lock_timeout_ms", ABSENT, ANY),
        )
    ),
    *(
        Difference(f"share_fetches_with_unusual_values-*: *topics={batches}*", f"*.{field}", ANY, ANY, _ACKS_FIRST)
        for batches in ("each", "two", "same partition twice")
        for field in ("acquired_records", "records")
    ),
    Difference("streams_joins_*: *user_endpoint=*", ".endpoint_information_epoch", ABSENT, 1, _ENDPOINTS),
    Difference("sharers_with_unusual_values-*: *member_epoch=2*", ".assignment", ABSENT, ANY, _LATE),
    Difference(
        "unusual_write_share_group_state-*: *state_batches=backwards*, known", "*.error_code", ABSENT, 42, _BACKWARDS
    ),
    Difference("unusual_write_share_group_state-*: *state_batches=backwards*, known, then", "*", ANY, ANY, _BACKWARDS),
    *(
        Difference("conversion_*: static: *came back*", path, ANY, ANY, _NOTHING_ASSIGNED)
        for path in ("*epoch", "*assignment", "*member_assignment")
    ),
    Difference("conversion_*: static: comes back as a consumer", ".member_epoch", 1, 2, _NOTHING_ASSIGNED),
    Difference("conversion_*: static: comes back as a consumer", ".assignment*", ANY, ANY, _NOTHING_ASSIGNED),
    Difference("conversion_*: static: comes back as a classic one", ".generation_id", 1, 2, _NOTHING_ASSIGNED),
    Difference("conversion_*: consumer first: alone, as classic", "*.member_assignment", ANY, ANY, _HELD),
    Difference("consumers_in_other_groups-*: not an assignment, epoch 0", ".error_code", -1, 69, _MALFORMED),
]
