"""One-line texts of cluster events. Control characters in names are escaped for terminals."""

from __future__ import annotations

from collections.abc import Sequence

from broker_cy.metrics.events import (
    CLASSIC_GROUP,
    AccessDenied,
    Accesses,
    Acl,
    AclsCreated,
    AclsDeleted,
    BrokerFenced,
    BrokerStarted,
    BrokerStopped,
    BrokerUnfenced,
    CertificateExchanged,
    CertificateExpires,
    CertificateRefused,
    ClientQuotasChanged,
    Commits,
    Committed,
    ConfigChanged,
    ControllerChanged,
    CopyFlowChanged,
    DelegationTokensChanged,
    DirectoryFailed,
    Event,
    GroupConverted,
    GroupEpoch,
    GroupStatus,
    InSyncBelowMin,
    LeadersElected,
    LoginFailed,
    MirrorChanged,
    MirrorFailed,
    MirrorTruncated,
    PartitionsAdded,
    QuotaChange,
    Rebalance,
    RecordsDeleted,
    ReplicaMoved,
    ScramUsersChanged,
    ShareLeaderChanged,
    ShareRecordsChanged,
    Stamped,
    StaticReplacement,
    StreamsInstanceChanged,
    StreamsStatus,
    TopicCreated,
    TopicDeleted,
    TransactionTimedOut,
    Trigger,
    entity_text,
)
from broker_cy.reporting.foreign_text import clean
from broker_cy.reporting.numbers import count, duration, offsets_text, plural, size, when

# Partitions of one commit event that are shown; a group may have thousands.
COMMITS_SHOWN_MAX = 4
PARTITIONS_SHOWN_MAX = 6
ACLS_SHOWN_MAX = 3
CREDENTIALS_SHOWN_MAX = 4
TOPICS_SHOWN_MAX = 4


def kind_of(event: Event) -> str:
    """`topic created` for topic_created."""
    return event.TYPE.replace("_", " ")


def subject_of(stamped: Stamped) -> str:
    """The resource that the event is about."""
    if isinstance(stamped.event, Accesses):
        return f"broker {stamped.broker}"
    if isinstance(stamped.event, AclsCreated | AclsDeleted):
        return clean(stamped.key) or "several principals"
    if isinstance(stamped.event, ScramUsersChanged | LoginFailed):
        return clean(stamped.key) or ("several users" if isinstance(stamped.event, ScramUsersChanged) else "unknown")
    if isinstance(stamped.event, ClientQuotasChanged):
        return clean(stamped.key) or "several clients"
    if isinstance(stamped.event, DelegationTokensChanged):
        return clean(stamped.key) or "several owners"
    if isinstance(stamped.event, CertificateExchanged | CertificateRefused | CertificateExpires):
        return clean(f"listener {stamped.key} of broker {stamped.broker}")
    return clean(stamped.key) or "all brokers"


def by_of(event: Event) -> str:
    """Return the client that requested it; empty without a client."""
    by = getattr(event, "by", None)
    return "" if by is None else clean(f"{by.client_id or by.principal} {by.host}".strip())


def line_of(event: Event) -> str:
    """Return a description of the event."""
    match event:
        case Rebalance():
            reasons = (
                ", ".join(dict.fromkeys(trigger.reason.replace("_", " ") for trigger in event.triggers))
                or "unknown reason"
            )
            name = "generation" if event.group_type == CLASSIC_GROUP else "epoch"
            moved = (
                f", {plural(event.moves_total, 'partition')} moved, stall {duration(event.stall_max_ms)}"
                if event.has_moves
                else ""
            )
            return clean(
                f"{name} {event.generation} ({reasons}): {event.members_before} -> "
                f"{plural(event.members_after, 'member')} in {duration(event.total_ms)}{moved}"
            )
        case GroupEpoch():
            members = plural(event.members, "member")
            return clean(f"epoch {event.epoch} of a {event.group_type} group with {members}: {cause_of(event)}")
        case GroupConverted():
            left = plural(event.members, "member")
            return clean(
                f"from {event.before} to {event.after} group, epoch {event.epoch}: {left} of the classic protocol"
            )
        case ShareLeaderChanged():
            held = plural(event.records, "record")
            shown = [f"{each.topic}-{each.partition} to broker {each.leader}" for each in event.partitions]
            return clean(f"{held} held: {_listed(shown, event.partitions_total, PARTITIONS_SHOWN_MAX)}")
        case StreamsStatus():
            found = "; ".join(status_text(each) for each in event.statuses)
            return clean(f"epoch {event.epoch}: {found or 'no problem any more'}")
        case StaticReplacement():
            return clean(f"instance {event.instance_id} returned as {event.new_member_id} from {event.host}")
        case TransactionTimedOut():
            return f"aborted after {duration(event.open_ms)} (timeout {duration(event.timeout_ms)})"
        case TopicCreated():
            return f"{plural(event.partitions, 'partition')}, replication factor {event.replication_factor}"
        case TopicDeleted():
            return f"with {plural(event.partitions, 'partition')}"
        case PartitionsAdded():
            return f"{event.before} -> {plural(event.after, 'partition')}"
        case RecordsDeleted():
            return f"partition {event.partition}: log start {count(event.before)} -> {count(event.after)}"
        case ShareRecordsChanged():
            who = f" of member {event.member_id}" if event.member_id else ""
            where = f"{event.topic}-{event.partition}, {offsets_text([(event.first_offset, event.last_offset)])}"
            return clean(f"{event.action} of {plural(event.records, 'record')}{who}: {where}")
        case ConfigChanged():
            changes = (f"{each.name}: {_value(each.before)} -> {_value(each.after)}" for each in event.changes)
            return clean(f"{event.resource_type.lower()}: {'; '.join(changes)}")
        case CopyFlowChanged():
            subject = f" {event.subject}" if event.subject else ""
            reason = f": {event.reason}" if event.reason else ""
            return clean(f"{event.change.replace('_', ' ')}{subject}{reason}")
        case StreamsInstanceChanged():
            task = f" task {event.task}" if event.task else ""
            reason = f": {event.reason}" if event.reason else ""
            return clean(f"instance {event.endpoint or event.instance} {event.change}{task}{reason}")
        case BrokerStarted():
            cut = f", {size(event.truncated_bytes)} truncated" if event.truncated_bytes else ""
            how = "after a clean shutdown" if event.clean else "after a crash"
            return clean(f"{event.software} {how} in {duration(event.start_ms)}{cut}")
        case BrokerStopped():
            return f"after {duration(event.uptime_ms)}"
        case Commits():
            return _commits(event.offsets)
        case BrokerFenced():
            why = f"{event.cause}: {event.reason}" if event.reason else event.cause
            return clean(f"epoch {event.epoch}: {why.replace('_', ' ')}")
        case BrokerUnfenced():
            return f"epoch {event.epoch}: in service"
        case DirectoryFailed():
            return clean(event.reason)
        case ReplicaMoved():
            return clean(f"partition {event.partition}: {event.source} -> {event.target} {event.state}")
        case MirrorChanged():
            parts = plural(event.partitions, "partition")
            return clean(f"{event.change}: {parts} of {event.source_topic} over link {event.link}")
        case MirrorFailed():
            return clean(f"{plural(event.partitions_total, 'partition')} over link {event.link}: {event.reason}")
        case MirrorTruncated():
            what = "records were deleted at the source" if event.cause == "deleted_at_source" else "the logs diverged"
            return clean(f"partition {event.partition}: {count(event.before)} -> {count(event.after)}, {what}")
        case ControllerChanged():
            return f"node {event.before} -> node {event.after}" if event.before >= 0 else f"node {event.after}"
        case LeadersElected() | InSyncBelowMin():
            return _partitions(event)
        case AclsCreated() | AclsDeleted():
            return _listed([acl_text(each) for each in event.acls], event.acls_total, ACLS_SHOWN_MAX)
        case ScramUsersChanged():
            texts = [f"{each.change} {each.mechanism} of {each.user}" for each in event.credentials]
            return _listed(texts, event.credentials_total, CREDENTIALS_SHOWN_MAX)
        case ClientQuotasChanged():
            return _listed([_quota(each) for each in event.quotas], event.quotas_total, CREDENTIALS_SHOWN_MAX)
        case DelegationTokensChanged():
            tokens = [f"{each.change} token {each.token_id} of {each.owner}" for each in event.tokens]
            return _listed(tokens, event.tokens_total, CREDENTIALS_SHOWN_MAX)
        case LoginFailed():
            mechanism = f"{event.mechanism} " if event.mechanism else ""
            again = "again, " if event.again else ""
            return clean(f"{mechanism}from {event.host} at {event.listener}, {again}{event.reason}{_times(event)}")
        case CertificateExchanged():
            return clean(f"{event.subject}, ends {_moment(event.not_after_ms)}")
        case CertificateRefused():
            return clean(f"{event.reason}; {event.subject} stays in use, ends {_moment(event.not_after_ms)}")
        case CertificateExpires():
            days = f"ends in at most {plural(event.days, 'day')}" if event.days else "has ended"
            return clean(f"{event.subject} {days}, {_moment(event.not_after_ms)}")
        case Accesses():
            principals = len({each.principal for each in event.accesses})
            more = f", and {count(event.left_out)} left out" if event.left_out else ""
            return f"{count(len(event.accesses))} of {plural(principals, 'principal')}{more}"
        case AccessDenied():
            what = f"{_word(event.operation)} {_word(event.resource_type)}:{event.resource} ({event.api})"
            return clean(f"{what} from {event.host}: {why_denied(event)}{_times(event)}")
    return clean(event.TYPE)


def _moment(ms: int) -> str:
    return when(ms, utc=True).partition(".")[0] + "Z"


def acl_text(acl: Acl) -> str:
    """An ACL in one line, in the words of `broker-cy acls` (security.acl_words)."""
    where = "" if acl.host == "*" else f" from {acl.host}"
    star = "*" if acl.pattern_type == "PREFIXED" else ""
    resource = "cluster" if acl.resource_type == "CLUSTER" else f"{_word(acl.resource_type)}:{acl.name}{star}"
    return f"{_word(acl.permission)} {acl.principal}{where} {_word(acl.operation)} {resource}"


def _word(name: str) -> str:
    return name.lower().replace("_", "-")


def why_denied(event: AccessDenied) -> str:
    """The rule that decided, or the nearest one, or why there is none."""
    if event.rule is not None:
        return f"denied by {acl_text(event.rule)}"
    if event.reason == "no_match":
        nearest = f", nearest {acl_text(event.near[0])}" if event.near else ""
        return f"no ACL allows it{nearest}"
    if event.reason == "no_acl_denied":
        return "no ACL concerns the resource"
    return "the broker did not know the ACLs yet" if event.reason == "not_loaded" else event.reason


def _times(event: LoginFailed | AccessDenied) -> str:
    times = f", {count(event.count)} times" if event.count > 1 else ""
    return f"{times}, and {count(event.left_out)} others" if event.left_out else times


def _quota(change: QuotaChange) -> str:
    return f"{entity_text(change.entity)}: {change.key}: {_value(change.before)} -> {_value(change.after)}"


def _listed(texts: Sequence[str], total: int, shown_max: int) -> str:
    more = [f"and {count(total - shown_max)} more"] if total > shown_max else []
    return clean("; ".join([*texts[:shown_max], *more]))


def _commits(offsets: Sequence[Committed]) -> str:
    shown = [
        f"{each.topic}-{each.partition}: {count(each.offset)} of {count(each.end)}"
        f"{f' and {count(each.completed)} more completed' if each.completed else ''}"
        for each in offsets
    ]
    more = [f"and {plural(len(shown) - COMMITS_SHOWN_MAX, 'other')}"] if len(shown) > COMMITS_SHOWN_MAX else []
    return clean(", ".join(shown[:COMMITS_SHOWN_MAX] + more))


def _partitions(event: LeadersElected | InSyncBelowMin) -> str:
    cause = f"{event.cause.replace('_', ' ')}: " if isinstance(event, LeadersElected) else ""
    more = ", .." if event.partitions_total > PARTITIONS_SHOWN_MAX else ""
    shown = ", ".join(event.partitions[:PARTITIONS_SHOWN_MAX])
    return clean(f"{cause}{plural(event.partitions_total, 'partition')}: {shown}{more}")


def _value(value: str | None) -> str:
    return "(unset)" if value is None else value


def cause_of(event: GroupEpoch) -> str:
    """The cause of an epoch, with the member or the topics that it came from."""
    who = origin_of(event.trigger)
    return clean(event.trigger.reason.replace("_", " ")) + (f" of {who}" if who else "")


def origin_of(trigger: Trigger) -> str:
    """The client, instance or member of a trigger, or the topics that have changed; empty without any."""
    more = len(trigger.topics) - TOPICS_SHOWN_MAX
    topics = ", ".join(trigger.topics[:TOPICS_SHOWN_MAX]) + (f" and {more} more" if more > 0 else "")
    return clean(trigger.client_id or trigger.instance_id or trigger.member_id or topics)


def status_text(status: GroupStatus) -> str:
    """A status of a streams group; it has no text for viewers who may not see the topics that it names."""
    return clean(f"{status.status}: {status.detail}" if status.detail else status.status)


def topics_of(event: Event) -> frozenset[str]:
    """The topics that the event is about."""
    match event:
        case Rebalance():
            of_triggers = (topic for trigger in event.triggers for topic in trigger.topics)
            return frozenset(move.topic for move in event.moves) | frozenset(of_triggers)
        case GroupEpoch():
            return frozenset(event.trigger.topics)
        case Commits():
            return frozenset(each.topic for each in event.offsets)
        case StreamsStatus():
            return frozenset(event.topics)
        case ShareLeaderChanged():
            return frozenset(each.topic for each in event.partitions)
        case TransactionTimedOut() | LeadersElected() | InSyncBelowMin():
            return frozenset(name.rpartition("-")[0] for name in event.partitions)
        case ConfigChanged():
            return frozenset({event.resource} if event.resource_type == "topic" else ())
        case TopicCreated() | TopicDeleted() | PartitionsAdded() | RecordsDeleted() | ShareRecordsChanged():
            return frozenset({event.topic})
        case MirrorChanged() | MirrorFailed() | MirrorTruncated():
            return frozenset({event.topic})
        case AccessDenied():
            return frozenset({event.resource} if event.resource_type == "TOPIC" else ())
    return frozenset()
