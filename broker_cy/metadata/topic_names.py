"""Kafka's rules for topic names (org.apache.kafka.common.internals.Topic)."""

from __future__ import annotations

import re
from typing import Final

from broker_cy.metrics import topics

CONSUMER_OFFSETS: Final = "__consumer_offsets"
TRANSACTION_STATE: Final = "__transaction_state"
SHARE_GROUP_STATE: Final = "__share_group_state"
# Topics that only this broker has: cluster events, and samples of its metrics.
CLUSTER_EVENTS: Final = topics.EVENTS
BROKER_METRICS: Final = topics.SAMPLES
CLUSTER_METADATA: Final = "__cluster_metadata"

# The topics that Kafka reports to clients as internal. Pattern subscriptions skip such topics, and so does Spark's
# source, without an option. So this broker's own topics are not among them: clients are meant to read those.
INTERNAL_TOPICS: Final = frozenset({CONSUMER_OFFSETS, TRANSACTION_STATE, SHARE_GROUP_STATE})
OWN_TOPICS: Final = frozenset({CLUSTER_EVENTS, BROKER_METRICS})
OWN_CLIENT: Final = topics.OWN_CLIENT
PROTECTED_TOPICS: Final = INTERNAL_TOPICS | OWN_TOPICS
NAME_LENGTH_MAX: Final = 249

_LEGAL = re.compile(r"[a-zA-Z0-9._-]+\Z")


def is_internal(name: str) -> bool:
    """Return whether Metadata reports the topic as internal."""
    return name in INTERNAL_TOPICS


def is_protected(name: str) -> bool:
    """Return whether only the broker itself writes to the topic, and deletes records of it."""
    return name in PROTECTED_TOPICS


def invalid_reason(name: str) -> str | None:
    """Kafka's message for an invalid topic name, or None for a valid one."""
    if not name:
        reason = "the empty string is not allowed"
    elif name in (".", ".."):
        reason = f"'{name}' is not allowed"
    elif len(name) > NAME_LENGTH_MAX:
        reason = f"the length of '{name}' is longer than the max allowed length {NAME_LENGTH_MAX}"
    elif not _LEGAL.match(name):
        reason = f"'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
    else:
        return None
    return f"Topic name is invalid: {reason}"


def collision_key(name: str) -> str | None:
    """A key that is the same for names that collide, such as `a.b` and `a_b`; None for a name with neither character,
    which cannot collide.
    """
    if "." in name or "_" in name:
        return name.replace(".", "_")
    return None
