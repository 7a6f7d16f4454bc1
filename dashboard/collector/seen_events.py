"""The part of the cluster's events that a viewer may see: which events, and which of their fields."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from broker_cy.metrics.events import (
    ConfigChanged,
    GroupEpoch,
    Rebalance,
    ShareLeaderChanged,
    Stamped,
    StreamsStatus,
    Trigger,
)
from dashboard.security.roles import EVERYTHING, Scope

# `kept` of a rebalance if only some of its topics are visible: events have only the sum over all topics.
KEPT_UNKNOWN: Final = -1


def may_see(event: Stamped, scope: Scope) -> bool:
    """Whether a viewer may see the topic or group that an event is about."""
    if scope.sees_everything:
        return True
    about = event.event
    group, topic = getattr(about, "group", None), getattr(about, "topic", None)
    if isinstance(about, ConfigChanged) and about.resource_type == "topic":
        topic = about.resource
    elif isinstance(about, ConfigChanged) and about.resource_type == "group":
        group = about.resource
    if group is None and topic is None:
        return False
    return (group is None or scope.sees_group(group)) and (topic is None or scope.sees_topic(topic))


def shown_to(stamped: Stamped, scope: Scope) -> Stamped:
    """Return an event that may_see allows, with visible topics and their partitions only, and no text on hidden ones.

    For a viewer who may see only some topics, `kept` is KEPT_UNKNOWN, `moves_total` counts what is listed, and
    `stall_max_ms` is the longest stall of that; as in every event it is 0 if no partition had an owner before.
    """
    event = stamped.event
    if scope.topics == EVERYTHING:
        return stamped
    if isinstance(event, StreamsStatus) and not all(map(scope.sees_topic, event.topics)):
        statuses = [replace(each, detail="") for each in event.statuses]
        topics = [topic for topic in event.topics if scope.sees_topic(topic)]
        return replace(stamped, event=replace(event, statuses=statuses, topics=topics))
    if isinstance(event, ShareLeaderChanged):
        partitions = [each for each in event.partitions if scope.sees_topic(each.topic)]
        return replace(stamped, event=replace(event, partitions=partitions, partitions_total=len(partitions)))
    if isinstance(event, GroupEpoch):
        return replace(stamped, event=replace(event, trigger=_seen_trigger(event.trigger, scope)))
    if not isinstance(event, Rebalance):
        return stamped
    moves = [move for move in event.moves if scope.sees_topic(move.topic)]
    # The stall of a partition that had no owner before is -1.
    stall_ms = max((move.stall_ms for move in moves if move.stall_ms >= 0), default=0)
    triggers = [_seen_trigger(trigger, scope) for trigger in event.triggers]
    seen = replace(
        event, triggers=triggers, moves=moves, moves_total=len(moves), kept=KEPT_UNKNOWN, stall_max_ms=stall_ms
    )
    return replace(stamped, event=seen)


def _seen_trigger(trigger: Trigger, scope: Scope) -> Trigger:
    topics = [topic for topic in trigger.topics if scope.sees_topic(topic)]
    return trigger if len(topics) == len(trigger.topics) else replace(trigger, topics=topics)


def seen_events(found: Iterable[Stamped], scope: Scope) -> list[Stamped]:
    """Return the events that a viewer may see, in their order, each without its hidden parts."""
    return [shown_to(each, scope) for each in found if may_see(each, scope)]
