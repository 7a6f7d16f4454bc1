"""Subscriptions by regular expressions (KIP-848): which topics they match, looked up in the background.

All expressions of a group are matched together, so that one rebalance follows. That happens if an expression is new, if
topics were created since, or after `group.consumer.regex.refresh.interval.ms`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import Final

from broker_cy.coordinator.consumer import records
from broker_cy.coordinator.consumer.group import ConsumerGroup, ResolvedRegex
from broker_cy.coordinator.consumer.member import ConsumerMember
from broker_cy.coordinator.group import GroupTable
from broker_cy.coordinator.modern.assigning import unchanged
from broker_cy.coordinator.modern.epochs import begin_epoch, hash_now, hash_some
from broker_cy.coordinator.pattern import Pattern, PatternError
from broker_cy.coordinator.step import GroupStep, Record
from broker_cy.core.classes import NamedTuple
from broker_cy.core.errors import ErrorCode, KafkaError
from broker_cy.core.step import Now, WorkFailed
from broker_cy.metrics.events import Trigger

# Kafka's, which cannot be set.
REFRESH_MIN_MS: Final = 10_000
# The rights are read while they may change: the search begins again then.
TRIES_MAX: Final = 5
# Topics of expressions whose records and epoch share one turn of the loop. For 10,000 topics, each takes about 3 ms.
TOPICS_PER_TURN: Final = 1_000

MayDescribe = Callable[[str], bool]
"""Whether the member that begins the search may describe a topic."""


class RegexChange(Enum):
    NONE = 0
    UNRESOLVED = 1
    """The member has another expression, whose topics are not known yet."""
    RESOLVED = 2
    """The member has another expression, whose topics are known, or none any more."""


def changed(
    machine: GroupTable,
    step: GroupStep,
    group: ConsumerGroup,
    before: ConsumerMember,
    member: ConsumerMember,
    may_describe: MayDescribe | None,
    now: Now,
) -> RegexChange:
    """The record of the member was appended: follow a change of its expression, and begin a search if one is due.
    Raises KafkaError(INVALID_REGULAR_EXPRESSION).
    """
    old, new = before.regex or "", member.regex or ""
    change = RegexChange.NONE
    has_new = False
    if old != new:
        change = RegexChange.UNRESOLVED
        if old and old not in group.regex_members:
            machine.append(step, [records.regex_tombstone(group.group_id, old)])
        if not new:
            change = RegexChange.RESOLVED
        elif group.regex_members[new] == 1:
            _check(new)
            has_new = True
        elif new in group.resolved:
            change = RegexChange.RESOLVED
    if is_search_due(machine, group, now, has_new=has_new):
        _search(machine, step, group, may_describe, now)
    return change


def _check(regex: str) -> None:
    try:
        Pattern(regex)
    except PatternError as error:
        raise KafkaError(ErrorCode.INVALID_REGULAR_EXPRESSION, f"SubscribedTopicRegex: {error}") from error


def is_search_due(machine: GroupTable, group: ConsumerGroup, now: Now, *, has_new: bool = False) -> bool:
    """Whether the topics of the group's expressions have to be looked up; always if it `has_new` expressions, unless
    that was done a moment ago.
    """
    if not group.regex_members or machine.has_work(group, found):
        return False
    newest = next(iter(group.resolved.values()), None)
    if newest is None:
        return True
    if now.wall_ms <= newest.timestamp_ms + REFRESH_MIN_MS:
        return False
    interval_ms = machine.settings.consumer.regex_refresh_interval_ms
    return (
        has_new
        or len(group.regex_members) != len(group.resolved)
        or newest.version < machine.topics_created_at
        or now.wall_ms > newest.timestamp_ms + interval_ms
    )


def _search(
    machine: GroupTable, step: GroupStep, group: ConsumerGroup, may_describe: MayDescribe | None, now: Now
) -> None:
    image = machine.image
    arguments = (group.group_id, tuple(group.regex_members), image.topics.names(), may_describe)
    machine.begin_work(step, group, search, (*arguments, image.offset, now.wall_ms), found)


class Matched(NamedTuple):
    """The topics that an expression matches, and the record of them."""

    topics: frozenset[str]
    record: Record


class Found(NamedTuple):
    """The result of a search for the topics of each expression, and the names of all of these topics in their order."""

    matched: Mapping[str, Matched]
    names: Sequence[str]


def search(
    group_id: str,
    regexes: Sequence[str],
    topics: Sequence[str],
    may_describe: MayDescribe | None,
    version: int,
    wall_ms: int,
) -> Found:
    """The topics that each expression matches, and that may be described, in metadata of the version. Runs in the
    background.
    """
    found = _matching(regexes, topics, may_describe)
    matched = {
        regex: Matched(names, records.regex_record(group_id, regex, ResolvedRegex(names, version, wall_ms)))
        for regex, names in found.items()
    }
    return Found(matched, sorted(frozenset[str]().union(*found.values())))


def _matching(
    regexes: Sequence[str], topics: Sequence[str], may_describe: MayDescribe | None
) -> dict[str, frozenset[str]]:
    matched: dict[str, frozenset[str]] = {}
    for regex in regexes:
        pattern = Pattern(regex)
        matched[regex] = frozenset(topic for topic in topics if pattern.matches(topic))
    if may_describe is None:
        return matched
    visible = _visible(frozenset[str]().union(*matched.values()), may_describe)
    return {regex: names & visible for regex, names in matched.items()}


def _visible(names: frozenset[str], may_describe: MayDescribe) -> frozenset[str]:
    for _ in range(TRIES_MAX - 1):
        try:
            return frozenset(filter(may_describe, names))
        except RuntimeError:
            # An ACL was changed meanwhile.
            continue
    return frozenset(filter(may_describe, names))


def found(
    machine: GroupTable,
    step: GroupStep,
    group_id: str,
    number: int,
    result: Found | WorkFailed,
    now: Now,
) -> None:
    """Keep the result for the expressions that the group still has; another epoch begins if their topics changed. Their
    metadata is hashed before, in parts if they are many; then the epoch also has a turn of its own.
    """
    machine.end_work(number, found)
    group = machine.groups.get(group_id)
    if not isinstance(group, ConsumerGroup) or group.number != number or isinstance(result, WorkFailed):
        return
    if not hash_some(machine, result.names):
        machine.begin_work(step, group, unchanged, (result,), found)
        return
    is_large = len(result.names) > TOPICS_PER_TURN
    before_all = frozenset(group.by_regex) if is_large else frozenset()
    has_changed = False
    for regex, matched in result.matched.items():
        if regex not in group.regex_members:
            continue
        before = group.resolved.get(regex)
        has_changed = has_changed or matched.topics != (frozenset() if before is None else before.topics)
        machine.append(step, [matched.record])
    # After a restart between the two turns, the metadata hash shows that the epoch is missing. It cannot if expressions
    # have only exchanged topics.
    if is_large and not (has_changed and before_all == group.by_regex.keys()):
        machine.begin_work(step, group, unchanged, (has_changed,), kept)
    else:
        _follow(machine, step, group, has_changed, now)


def kept(
    machine: GroupTable, step: GroupStep, group_id: str, number: int, has_changed: bool | WorkFailed, now: Now
) -> None:
    """The turn of the epoch has come. The records may have been undone since: another epoch does no harm."""
    machine.end_work(number, kept)
    group = machine.groups.get(group_id)
    if isinstance(group, ConsumerGroup) and group.number == number and not isinstance(has_changed, WorkFailed):
        _follow(machine, step, group, has_changed, now)


def _follow(machine: GroupTable, step: GroupStep, group: ConsumerGroup, has_changed: bool, now: Now) -> None:
    """Begin another epoch if expressions match other topics, or if the metadata of topics has changed."""
    metadata_hash = hash_now(machine, group)
    if has_changed or metadata_hash != group.metadata_hash:
        trigger = Trigger("regex") if has_changed else group.metadata_trigger(machine.topic_hashes)
        begin_epoch(machine, step, group, now, records.epoch_record, metadata_hash, trigger)
        group.refreshed(now.mono_ms)
