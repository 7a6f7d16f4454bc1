"""Evaluation of each kind of rule. It uses the answers of the session's feeds, so rules and screens share requests."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from broker_cy.admin.group_lag import GroupLag
from broker_cy.admin.lag import Status
from broker_cy.admin.log_dirs import LogDir
from broker_cy.admin.metadata import PartitionInfo
from broker_cy.admin.streams_applications import ERROR, NOT_READY
from broker_cy.client.errors import ClientError, Failure
from broker_cy.client.turns import Turns
from broker_cy.console.alerts.rules import Rule
from broker_cy.console.feed_values import GroupSummary
from broker_cy.console.mirrors import CIRCLE, PROBLEM, MirrorFlow
from broker_cy.console.session import Session, now_ms
from broker_cy.console.voters import spare_text
from broker_cy.core.classes import NamedTuple
from broker_cy.core.errors import ErrorCode
from broker_cy.reporting.numbers import count, duration, percent, plural, size

# The maximum age of the answers that a rule uses. Finding hanging transactions requests the producers of every
# partition, and the sizes of disks require every replica.
AGE_MAX_S: Final = 5.0
GROUPS_AGE_MAX_S: Final = 15.0
DISKS_AGE_MAX_S: Final = 30.0
HANGING_AGE_MAX_S: Final = 60.0
MIRRORS_AGE_MAX_S: Final = 15.0
STREAMS_AGE_MAX_S: Final = 15.0


class Broken(NamedTuple):
    """One resource that violates a rule. `subject` identifies it for as long as it does."""

    subject: str
    text: str


class NotYet(Exception):
    """Too little was observed to evaluate a rule; the message says so."""


Look = Callable[[Session, Rule], Awaitable[list[Broken]]]


async def _partitions(
    session: Session, rule: Rule, is_broken: Callable[[PartitionInfo], bool]
) -> list[tuple[str, PartitionInfo]]:
    found: list[tuple[str, PartitionInfo]] = []
    turns = Turns()
    for topic in await session.topics().fresh(AGE_MAX_S):
        await turns.pause()
        if rule.is_about(topic.name):
            found += [(f"{topic.name}-{part.partition}", part) for part in topic.partitions if is_broken(part)]
    return found


async def _offline(session: Session, rule: Rule) -> list[Broken]:
    return [
        Broken(name, f"{name} is offline: it has no leader")
        for name, _ in await _partitions(session, rule, lambda part: part.is_offline)
    ]


async def _under_replicated(session: Session, rule: Rule) -> list[Broken]:
    found = await _partitions(session, rule, lambda part: part.is_under_replicated)
    return [
        Broken(name, f"{name} has {len(part.in_sync_replicas)} of {len(part.replicas)} replicas in sync")
        for name, part in found
    ]


async def _hanging(session: Session, rule: Rule) -> list[Broken]:
    return [
        Broken(
            f"{each.partition}/{each.producer.producer_id}",
            f"a transaction of producer {each.producer.producer_id} hangs in {each.partition}, "
            f"idle for {duration(each.idle_ms)}",
        )
        for each in await session.hanging().fresh(HANGING_AGE_MAX_S)
        if rule.is_about(each.partition.topic)
    ]


async def _directories(session: Session) -> list[LogDir]:
    found = (await session.log_dirs().fresh(DISKS_AGE_MAX_S)).found
    return [each for theirs in found.values() for each in theirs]


async def _disk(session: Session, rule: Rule) -> list[Broken]:
    found: list[Broken] = []
    for each in await _directories(session):
        if each.usable_bytes is not None and each.total_bytes:
            share = 100 * each.usable_bytes / each.total_bytes
            is_low = (rule.free_percent is not None and share < rule.free_percent) or (
                rule.free_bytes is not None and each.usable_bytes < rule.free_bytes
            )
            if is_low:
                subject = f"{each.path} of broker {each.broker_id}"
                free = f"{size(each.usable_bytes)} ({percent(each.usable_bytes, each.total_bytes)})"
                found.append(Broken(subject, f"{subject} has {free} free"))
    return found


async def _failed_disk(session: Session, rule: Rule) -> list[Broken]:
    return [
        Broken(
            subject := f"{each.path} of broker {each.broker_id}",
            f"{subject} is offline" if each.is_offline else f"{subject}: {each.error}",
        )
        for each in await _directories(session)
        if each.error
    ]


async def _groups(session: Session, rule: Rule) -> dict[str, GroupSummary]:
    summaries = await session.group_lags().fresh(GROUPS_AGE_MAX_S)
    return {group_id: summary for group_id, summary in summaries.items() if rule.is_about(group_id)}


def _status_look(status: Status, said: str) -> Look:
    async def look(session: Session, rule: Rule) -> list[Broken]:
        groups = await _groups(session, rule)
        found = [
            Broken(group_id, f"group {group_id} {said}, {plural(summary.lag or 0, 'record')} behind")
            for group_id, summary in groups.items()
            if summary.status is status
        ]
        unknown = sum(summary.status is Status.UNKNOWN for summary in groups.values())
        if unknown and not found:
            raise NotYet(f"{plural(unknown, 'group')} with lag not observed for long enough")
        return found

    return look


async def _lag(session: Session, rule: Rule) -> list[Broken]:
    found: list[Broken] = []
    slow: list[str] = []
    for group_id, summary in (await _groups(session, rule)).items():
        lag = summary.lag or 0
        if rule.records is not None and lag > rule.records:
            text = f"group {group_id} is {plural(lag, 'record')} behind (limit {count(rule.records)})"
            found.append(Broken(group_id, text))
        elif rule.seconds is not None and lag:
            slow.append(group_id)
    if rule.seconds is not None and slow:
        lags = (await session.client.lag.of(slow)).found
        found += [each for lag in lags.values() for each in await _time_lag(session, lag, rule.seconds)]
    return found


async def _time_lag(session: Session, lag: GroupLag, seconds: float) -> list[Broken]:
    times = (await session.client.lag.times(lag, now_ms())).found
    worst = max((each for each in times.values() if each is not None), default=0)
    if worst <= seconds * 1000:
        return []
    text = f"group {lag.group_id} is {duration(worst)} behind (limit {duration(seconds * 1000)})"
    return [Broken(lag.group_id, text)]


async def _broker_away(session: Session, rule: Rule) -> list[Broken]:
    """Return brokers that are fenced, or have replicas or a vote but are missing from the cluster; all if none
    answers.
    """
    try:
        cluster = await session.cluster().fresh(AGE_MAX_S)
    except ClientError as error:
        if error.failure in (Failure.UNREACHABLE, Failure.TIMED_OUT):
            return [Broken("all brokers", f"no broker can be reached: {error.reason}")]
        raise
    found = [
        Broken(f"broker {each.broker_id}", f"broker {each.broker_id} ({each.host}:{each.port}) is fenced")
        for each in cluster.brokers
        if each.is_fenced
    ]
    expected: set[int] = set()
    turns = Turns()
    for topic in await session.topics().fresh(AGE_MAX_S):
        await turns.pause()
        expected.update(broker for part in topic.partitions for broker in part.replicas)
    away = expected - {each.broker_id for each in cluster.brokers}
    return found + [Broken(f"broker {each}", f"broker {each} is away: it has replicas") for each in sorted(away)]


# Answers of a broker whose quorum has no leader to ask.
_LEADERLESS: Final = frozenset(
    {
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.NOT_CONTROLLER,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.BROKER_NOT_AVAILABLE,
    }
)


async def _leaderless(session: Session, rule: Rule) -> list[Broken]:
    # If no broker answers, this rule cannot be evaluated.
    await session.cluster().fresh(AGE_MAX_S)
    try:
        quorum = await session.quorum().fresh(AGE_MAX_S)
    except ClientError as error:
        if error.failure is Failure.UNSUPPORTED:
            return []
        if error.failure is Failure.TIMED_OUT or error.code in _LEADERLESS:
            return [Broken("quorum", f"the metadata quorum has no leader: {error.reason}")]
        raise
    if quorum.leader_id >= 0:
        return []
    voters = ", ".join(str(each.replica_id) for each in quorum.voters)
    return [Broken("quorum", f"the metadata quorum has no leader (voters {voters})")]


async def _voter_away(session: Session, rule: Rule) -> list[Broken]:
    """Return the voters that the leader does not hear from. Returns none without a reported quorum, and without a
    leader: that has its own rule.
    """
    await session.cluster().fresh(AGE_MAX_S)
    try:
        quorum = await session.quorum().fresh(AGE_MAX_S)
    except ClientError as error:
        if error.failure in (Failure.UNSUPPORTED, Failure.TIMED_OUT) or error.code in _LEADERLESS:
            return []
        raise
    return [
        Broken(f"voter {each}", f"voter {each} of the metadata quorum is away: {spare_text(quorum)}")
        for each in quorum.away
    ]


async def _flows(session: Session, rule: Rule) -> list[MirrorFlow]:
    return [each for each in (await session.mirrors().fresh(MIRRORS_AGE_MAX_S)).flows if rule.is_about(each.name)]


async def _mirror_stopped(session: Session, rule: Rule) -> list[Broken]:
    """Return flows that do not run, and processes that do not answer."""
    found = [
        Broken(each.name, f"mirror {each.name} does not run: {each.trouble}")
        for each in await _flows(session, rule)
        if each.is_stopped
    ]
    silent = (await session.mirrors().fresh(MIRRORS_AGE_MAX_S)).failed
    return found + [
        Broken(f"process {place}", f"the mirror at {place} does not answer: {reason}")
        for place, reason in silent.items()
        if rule.flow == "*"
    ]


async def _mirror_lag(session: Session, rule: Rule) -> list[Broken]:
    found: list[Broken] = []
    for flow in await _flows(session, rule):
        records, age_ms = flow.lag_records or 0, flow.lag_ms or 0
        if rule.records is not None and records > rule.records:
            text = f"mirror {flow.name} is {plural(records, 'record')} behind (limit {count(rule.records)})"
            found.append(Broken(flow.name, text))
        elif rule.seconds is not None and age_ms > rule.seconds * 1000:
            text = f"mirror {flow.name} is {duration(age_ms)} behind (limit {duration(rule.seconds * 1000)})"
            found.append(Broken(flow.name, text))
    return found


def _note_look(kind: str) -> Look:
    async def look(session: Session, rule: Rule) -> list[Broken]:
        return [
            Broken(f"{flow.name}, {each.subject}", f"mirror {flow.name}, {each.subject}: {each.text}")
            for flow in await _flows(session, rule)
            # Its alert is that of mirror_stopped.
            if not flow.is_stopped
            for each in flow.notes
            if each.kind == kind
        ]

    return look


async def _streams_failed(session: Session, rule: Rule) -> list[Broken]:
    """Return applications whose instances failed, or whose topics do not fit. The pages say why: reasons name topics,
    which not all who see the group may see.
    """
    found = []
    for each in await session.streams().fresh(STREAMS_AGE_MAX_S):
        if each.state in (ERROR, NOT_READY) and rule.is_about(each.name):
            found.append(Broken(each.name, f"application {each.name} does not run: {each.state}"))
    return found


LOOKS: Final[dict[str, Look]] = {
    "offline_partition": _offline,
    "under_replicated_partition": _under_replicated,
    "hanging_transaction": _hanging,
    "disk": _disk,
    "failed_disk": _failed_disk,
    "stalled_group": _status_look(Status.STALLED, "does not consume although it has members"),
    "stopped_group": _status_look(Status.STOPPED, "stopped committing"),
    "lag": _lag,
    "broker_away": _broker_away,
    "leaderless_quorum": _leaderless,
    "voter_away": _voter_away,
    "mirror_stopped": _mirror_stopped,
    "mirror_lag": _mirror_lag,
    "mirror_problem": _note_look(PROBLEM),
    "mirror_circle": _note_look(CIRCLE),
    "streams_failed": _streams_failed,
}
