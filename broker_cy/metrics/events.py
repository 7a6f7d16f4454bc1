"""The events of a cluster, as typed records of the topic `__cluster_events`. docs/events.md is generated from this
module.

The value of a record is JSON: `type` and `version` of the event, `time_ms` (wall clock, since 1970), `broker` (node
id), and the fields of its class. The key of a record is the subject of the event (a group, a topic, a transactional
id), as text. Later releases may add fields; a change of meaning raises the version. Readers skip unknown versions and
fields. The file is long because it is the list of all events, and docs/events.md follows its order.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, field, fields
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from broker_cy.core.classes import dataclass
from broker_cy.metrics import topics

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

TOPIC = topics.EVENTS
# The most partitions listed in an event, so that the event of a group with thousands of partitions is still one record,
# of a few hundred KB; `moves_total` and `partitions_total` count all of them.
PARTITIONS_REPORTED_MAX = 2_000
# The same for ACLs, users, quotas and delegation tokens of one change.
CHANGES_REPORTED_MAX = 1_000
# The characters of a name or reason that a client chose. Names of topics have at most 249.
TEXT_CHARACTERS_MAX = 250
# Kafka's types of groups.
CLASSIC_GROUP = "classic"
GROUP_TYPES = (CLASSIC_GROUP, "consumer", "share", "streams")
# Each partition has one owner in such a group.
OWNING_GROUP_TYPES = (CLASSIC_GROUP, "consumer")


@dataclass(slots=True)
class Client:
    """The client that requested a change: its client id, its address, and its principal if it has one."""

    client_id: str = ""
    host: str = ""
    principal: str = "User:ANONYMOUS"


@dataclass(slots=True)
class Trigger:
    """The reason why a rebalance or an epoch started, and the member concerned. `reason` is join, rejoin, leave,
    session_timeout, rebalance_timeout, join_timeout, sync_timeout, static_replacement, subscription (other topics of a
    member), member_changed (other data of a member of a streams group), regex (other topics that match its expression),
    metadata (of subscribed topics), share_partitions (state of partitions was initialized or removed), topology (the
    topics of a streams group fit it now, or do not), config (standby replicas of a streams group), upgrade or downgrade
    (of the protocol), write_failed or group_too_large. `topics` are those whose metadata have changed, by name, at most
    20; none if the coordinator does not know them, because it has just begun to serve the group.
    """

    reason: str
    member_id: str = ""
    instance_id: str | None = None
    client_id: str = ""
    host: str = ""
    topics: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Move:
    """One partition that changed its owner, or had none for a while. `stall_ms` is the time from when its last owner
    stopped reading it until the new owner received its assignment; -1 if the partition had no owner before. As far as
    the coordinator knows, an owner stops when it joins again without the partition, leaves, or sends its last request.
    """

    topic: str
    partition: int
    source: str | None
    target: str | None
    stall_ms: int


@dataclass(slots=True)
class Event:
    """Base of all events."""

    TYPE: ClassVar[str]
    VERSION: ClassVar[int] = 1

    @property
    def key(self) -> str:
        """The subject of the event, which is the key of its record."""
        return ""


@dataclass(slots=True)
class Rebalance(Event):
    """A group completed a rebalance. `join_ms` is the time spent waiting for its members, `sync_ms` the time spent
    waiting for the leader's assignment and for its write. `result` is stable, or empty if no member was left. `moves`
    lists the partitions whose owner changed or that stalled: the longest stall first, at most 2,000 of the
    `moves_total`. `kept` counts the partitions that were read without interruption.

    For a consumer, share or streams group (`group_type`), `generation` is the epoch and `protocol` the assignor;
    `join_ms` is the time until the assignment was computed, `sync_ms` the time until every member had its part.
    """

    TYPE: ClassVar[str] = "rebalance"
    group: str = ""
    generation: int = 0
    protocol: str | None = None
    result: str = "stable"
    started_ms: int = 0
    join_ms: int = 0
    sync_ms: int = 0
    total_ms: int = 0
    members_before: int = 0
    members_after: int = 0
    triggers: list[Trigger] = field(default_factory=list)
    moves: list[Move] = field(default_factory=list)
    moves_total: int = 0
    kept: int = 0
    stall_max_ms: int = 0
    group_type: str = CLASSIC_GROUP

    @property
    def key(self) -> str:
        return self.group

    @property
    def has_moves(self) -> bool:
        """Whether the owners of partitions are observed: members of a share group share partitions, and members of a
        streams group have tasks.
        """
        return self.group_type in OWNING_GROUP_TYPES


@dataclass(slots=True)
class GroupEpoch(Event):
    """A consumer, share or streams group (`group_type`) began an epoch with so many members: its partitions are
    assigned again. The trigger is the cause. The rebalance event follows when every member has its part.
    """

    TYPE: ClassVar[str] = "group_epoch"
    group: str = ""
    group_type: str = ""
    epoch: int = 0
    trigger: Trigger = field(default_factory=lambda: Trigger(""))
    members: int = 0

    @property
    def key(self) -> str:
        return self.group


@dataclass(slots=True)
class GroupConverted(Event):
    """A group with members became one of another type (KIP-848): a consumer group when the first member of the consumer
    protocol joined, a classic group when the last one was gone. `members` go on with the classic protocol.
    """

    TYPE: ClassVar[str] = "group_converted"
    group: str = ""
    before: str = ""
    after: str = ""
    epoch: int = 0
    members: int = 0

    @property
    def key(self) -> str:
        return self.group


@dataclass(slots=True)
class HeldRecords:
    """Records of a partition that members of a share group held, and its leader; -1 if it had none yet."""

    topic: str
    partition: int
    records: int
    leader: int


@dataclass(slots=True)
class ShareLeaderChanged(Event):
    """Partitions changed their leader while members of a share group held `records` records. The next leader delivers
    them again, and does not count the interrupted delivery. `partitions` lists the first 2,000 of the
    `partitions_total`. The former leader writes the event; one that failed writes none.
    """

    TYPE: ClassVar[str] = "share_leader_changed"
    group: str = ""
    records: int = 0
    partitions: list[HeldRecords] = field(default_factory=list)
    partitions_total: int = 0

    @property
    def key(self) -> str:
        return self.group


@dataclass(slots=True)
class GroupStatus:
    """A status code of StreamsGroupHeartbeat by its name (KIP-1071), and the text that members get with it."""

    status: str
    detail: str


@dataclass(slots=True)
class StreamsStatus(Event):
    """The status of a streams group changed: why it has no tasks, or is about to stop. Without `statuses`, all is well
    again. A stale topology is a status of single members, and is not listed. If only the text changed, the event is
    written at most once a minute. `topics` are those that the texts may name: who may not see one of them is not shown
    the texts.
    """

    TYPE: ClassVar[str] = "streams_status"
    group: str = ""
    epoch: int = 0
    topology_epoch: int = 0
    statuses: list[GroupStatus] = field(default_factory=list)
    topics: list[str] = field(default_factory=list)

    @property
    def key(self) -> str:
        return self.group


@dataclass(slots=True)
class StaticReplacement(Event):
    """A static member returned with a new member id, and took its place again without a rebalance."""

    TYPE: ClassVar[str] = "static_replacement"
    group: str = ""
    generation: int = 0
    instance_id: str = ""
    old_member_id: str = ""
    new_member_id: str = ""
    client_id: str = ""
    host: str = ""

    @property
    def key(self) -> str:
        return self.group


@dataclass(slots=True)
class TransactionTimedOut(Event):
    """The coordinator aborted a transaction that had been open for longer than its timeout. `partitions` lists the
    first 2,000 of its `partitions_total` partitions.
    """

    TYPE: ClassVar[str] = "transaction_timed_out"
    transactional_id: str = ""
    producer_id: int = -1
    producer_epoch: int = -1
    timeout_ms: int = 0
    open_ms: int = 0
    partitions: list[str] = field(default_factory=list)
    partitions_total: int = 0

    @property
    def key(self) -> str:
        return self.transactional_id


@dataclass(slots=True)
class TopicCreated(Event):
    TYPE: ClassVar[str] = "topic_created"
    topic: str = ""
    topic_id: str = ""
    partitions: int = 0
    replication_factor: int = 0
    configs: dict[str, str] = field(default_factory=dict)
    by: Client = field(default_factory=Client)

    @property
    def key(self) -> str:
        return self.topic


@dataclass(slots=True)
class TopicDeleted(Event):
    TYPE: ClassVar[str] = "topic_deleted"
    topic: str = ""
    topic_id: str = ""
    partitions: int = 0
    by: Client = field(default_factory=Client)

    @property
    def key(self) -> str:
        return self.topic


@dataclass(slots=True)
class PartitionsAdded(Event):
    TYPE: ClassVar[str] = "partitions_added"
    topic: str = ""
    before: int = 0
    after: int = 0
    by: Client = field(default_factory=Client)

    @property
    def key(self) -> str:
        return self.topic


@dataclass(slots=True)
class RecordsDeleted(Event):
    """DeleteRecords advanced the log start offset."""

    TYPE: ClassVar[str] = "records_deleted"
    topic: str = ""
    partition: int = 0
    before: int = 0
    after: int = 0
    by: Client = field(default_factory=Client)

    @property
    def key(self) -> str:
        return self.topic


@dataclass(slots=True)
class ShareRecordsChanged(Event):
    """An operator changed records of a share group in flight. `action` is release (they are available again, or
    archived after their last delivery), reject (archived) or redrive (archived records are available again). The
    `records` are between the two offsets. `member_id`: only those that this member had locked; empty: of any member.
    """

    TYPE: ClassVar[str] = "share_records_changed"
    group: str = ""
    topic: str = ""
    partition: int = 0
    action: str = ""
    records: int = 0
    first_offset: int = 0
    last_offset: int = 0
    member_id: str = ""
    by: Client = field(default_factory=Client)

    @property
    def key(self) -> str:
        return self.group


@dataclass(slots=True)
class ConfigChange:
    """One setting; `before` or `after` is None if it was not set before or is not set now."""

    name: str
    before: str | None
    after: str | None


@dataclass(slots=True)
class ConfigChanged(Event):
    """Settings of a topic, a broker ("" for all), a group or a client metrics subscription changed. Secrets are not
    included.
    """

    TYPE: ClassVar[str] = "config_changed"
    resource_type: str = ""
    resource: str = ""
    changes: list[ConfigChange] = field(default_factory=list)
    by: Client = field(default_factory=Client)

    @property
    def key(self) -> str:
        return self.resource


@dataclass(slots=True)
class CopyFlowChanged(Event):
    """A flow of broker-mirror into the cluster changed; a process of broker-mirror writes the event, not a broker.
    `change` is started (the process has a part of the flow), failed (it starts again after a pause; `restarts` is how
    often it did), problem_began, problem_ended, or loop_found (a topic of the source that comes from the target is not
    copied back). `subject` is the task, topic or partition of a problem or loop, or others (`reason` is their number).
    """

    TYPE: ClassVar[str] = "copy_flow_changed"
    source: str = ""
    target: str = ""
    change: str = ""
    subject: str = ""
    reason: str = ""
    restarts: int = 0

    @property
    def key(self) -> str:
        return f"{self.source}->{self.target}"


@dataclass(slots=True)
class StreamsInstanceChanged(Event):
    """An instance of a stream processing application of broker-streams changed; the instance writes the event, not a
    broker. `change` is started, rebalancing (tasks come or go), running, stopped, failed (`reason` is the error, with
    the task and the record), or restored (the stores of `task` were read from their changelogs; `reason` is the number
    of records). `instance` is its process id, and `endpoint` its application.server.
    """

    TYPE: ClassVar[str] = "streams_instance_changed"
    group: str = ""
    instance: str = ""
    endpoint: str = ""
    change: str = ""
    task: str = ""
    reason: str = ""

    @property
    def key(self) -> str:
        return self.group


@dataclass(slots=True)
class BrokerStarted(Event):
    """The broker started. `clean` is true after a clean shutdown. `truncated_bytes` is the size of the incomplete or
    damaged ends that were truncated from logs; `truncated` lists it by partition.
    """

    TYPE: ClassVar[str] = "broker_started"
    software: str = ""
    clean: bool = True
    start_ms: int = 0
    partitions: int = 0
    truncated_bytes: int = 0
    truncated: dict[str, int] = field(default_factory=dict)


@dataclass(slots=True)
class BrokerStopped(Event):
    """The broker began to shut down. After a crash this event is missing before the next broker_started."""

    TYPE: ClassVar[str] = "broker_stopped"
    uptime_ms: int = 0


@dataclass(slots=True)
class BrokerFenced(Event):
    """A broker is no longer in service. `cause` is lost, stopped (cleanly), started_again (another incarnation
    registered) or unregistered. `reason` says how the controller detected a lost broker: session_timeout, process_ended
    (its host refused connections, or the parent of a shard detected its end), stands_still (it did not answer
    liveness requests), refuses_connections (those of other hosts) or requested (by the broker itself). `reason` is
    empty if a controller of Apache Kafka or of an older version fenced the broker.
    """

    TYPE: ClassVar[str] = "broker_fenced"
    node: int = -1
    epoch: int = -1
    cause: str = ""
    reason: str = ""

    @property
    def key(self) -> str:
        return f"broker {self.node}"


@dataclass(slots=True)
class BrokerUnfenced(Event):
    """A broker is in service: metadata name it to clients, and it may lead partitions."""

    TYPE: ClassVar[str] = "broker_unfenced"
    node: int = -1
    epoch: int = -1

    @property
    def key(self) -> str:
        return f"broker {self.node}"


@dataclass(slots=True)
class DirectoryFailed(Event):
    """The disk of a data directory of the broker has failed: its partitions are offline on the broker until a restart
    with a working disk. Brokers of Apache Kafka write no such event.
    """

    TYPE: ClassVar[str] = "directory_failed"
    path: str = ""
    reason: str = ""

    @property
    def key(self) -> str:
        return self.path


@dataclass(slots=True)
class ReplicaMoved(Event):
    """A replica of the broker moves from the data directory `source` to `target` (AlterReplicaLogDirs). `state` is
    began, completed or cancelled; a move that a restart interrupts begins again.
    """

    TYPE: ClassVar[str] = "replica_moved"
    topic: str = ""
    partition: int = -1
    source: str = ""
    target: str = ""
    state: str = ""

    @property
    def key(self) -> str:
        return self.topic


@dataclass(slots=True)
class MirrorChanged(Event):
    """A topic began to mirror the topic `source_topic` of another cluster over a link, or `change` is paused, resumed
    or promoted: it takes records of producers from now on.
    """

    TYPE: ClassVar[str] = "mirror_changed"
    topic: str = ""
    link: str = ""
    source_topic: str = ""
    change: str = ""
    partitions: int = 0
    by: Client = field(default_factory=Client)

    @property
    def key(self) -> str:
        return self.topic


@dataclass(slots=True)
class MirrorFailed(Event):
    """Partitions of a mirror ended to be copied until an operator acts. `cause` is source_recreated (the source topic
    was deleted and created again), other_source_id, no_partition (in the source), unrelated_logs, itself (the source
    topic is the mirror), controller (it does not raise leader epochs), or old_records (of a message format before
    Apache Kafka 0.11). `partitions` lists the first 2,000 of the `partitions_total`.
    """

    TYPE: ClassVar[str] = "mirror_failed"
    topic: str = ""
    link: str = ""
    source_topic: str = ""
    cause: str = ""
    reason: str = ""
    partitions: list[int] = field(default_factory=list)
    partitions_total: int = 0

    @property
    def key(self) -> str:
        return self.topic


@dataclass(slots=True)
class MirrorTruncated(Event):
    """The log of a mirror was cut from the offset `before` to `after`, because the logs diverged after an unclean
    election of the source, or after a promotion (`cause` is diverged); or it begins again at `after`, because the
    source deleted the records before it earlier than they were copied (deleted_at_source).
    """

    TYPE: ClassVar[str] = "mirror_truncated"
    topic: str = ""
    partition: int = -1
    link: str = ""
    cause: str = ""
    before: int = -1
    after: int = -1

    @property
    def key(self) -> str:
        return self.topic


@dataclass(slots=True)
class ControllerChanged(Event):
    """Another node is the active controller; -1 if none was known before."""

    TYPE: ClassVar[str] = "controller_changed"
    before: int = -1
    after: int = -1

    @property
    def key(self) -> str:
        return "controller"


@dataclass(slots=True)
class LeadersElected(Event):
    """Partitions have another leader, because their leader was lost or stopped. `cause` is failure, unclean (the new
    leader was not in sync: acknowledged records may be lost) or no_leader (no replica may lead). `partitions` lists the
    first 2,000 of `partitions_total`.
    """

    TYPE: ClassVar[str] = "leaders_elected"
    cause: str = ""
    partitions: list[str] = field(default_factory=list)
    partitions_total: int = 0

    @property
    def key(self) -> str:
        return "leaders"


@dataclass(slots=True)
class InSyncBelowMin(Event):
    """The in-sync sets of partitions became smaller than min.insync.replicas: requests with acks=all are refused.
    `partitions` lists the first 2,000 of `partitions_total`.
    """

    TYPE: ClassVar[str] = "in_sync_below_min"
    partitions: list[str] = field(default_factory=list)
    partitions_total: int = 0

    @property
    def key(self) -> str:
        return "replicas"


@dataclass(slots=True)
class Committed:
    """The committed offset of one partition. `record_time_ms` is the timestamp of the record at that offset, which the
    group reads next. It is -1 if no such record exists yet: the group has read everything. `end` is the high watermark
    at that time.

    For a share group, `offset` is its start offset, `commit_ms` the time at which it was persisted, and `completed` the
    number of records behind it that members have completed already: the lag is `end - offset - completed`, as Kafka
    computes it (KIP-1226).
    """

    topic: str
    partition: int
    offset: int
    commit_ms: int
    record_time_ms: int
    end: int
    completed: int = 0


@dataclass(slots=True)
class Acl:
    """One ACL, with Kafka's names: `pattern_type` is LITERAL or PREFIXED, `permission` ALLOW or DENY."""

    permission: str = ""
    principal: str = ""
    host: str = ""
    operation: str = ""
    resource_type: str = ""
    pattern_type: str = ""
    name: str = ""


@dataclass(slots=True)
class AclsCreated(Event):
    """ACLs were created. `acls` lists the first 1,000 of `acls_total`."""

    TYPE: ClassVar[str] = "acls_created"
    acls: list[Acl] = field(default_factory=list)
    acls_total: int = 0
    by: Client = field(default_factory=Client)

    @property
    def key(self) -> str:
        return _only(each.principal for each in self.acls)


@dataclass(slots=True)
class AclsDeleted(Event):
    """ACLs were deleted. `acls` lists the first 1,000 of `acls_total`."""

    TYPE: ClassVar[str] = "acls_deleted"
    acls: list[Acl] = field(default_factory=list)
    acls_total: int = 0
    by: Client = field(default_factory=Client)

    @property
    def key(self) -> str:
        return _only(each.principal for each in self.acls)


@dataclass(slots=True)
class Credential:
    """The credential of a user for one mechanism. `change` is created, altered (another password or other iterations)
    or deleted; `iterations` is 0 for a deleted one.
    """

    user: str = ""
    mechanism: str = ""
    change: str = ""
    iterations: int = 0


@dataclass(slots=True)
class ScramUsersChanged(Event):
    """SCRAM credentials were created, altered or deleted. `credentials` lists the first 1,000 of `credentials_total`.
    The event contains no passwords, and no data that was derived from them.
    """

    TYPE: ClassVar[str] = "scram_users_changed"
    credentials: list[Credential] = field(default_factory=list)
    credentials_total: int = 0
    by: Client = field(default_factory=Client)

    @property
    def key(self) -> str:
        return _only(each.user for each in self.credentials)


@dataclass(slots=True)
class QuotaChange:
    """One quota of an entity. `entity` has names by type (user, client-id or ip); None is the default for names without
    a quota of their own. `before` and `after` are numbers as text; None if the quota was not set before or is not set
    now.
    """

    entity: dict[str, str | None] = field(default_factory=dict)
    key: str = ""
    before: str | None = None
    after: str | None = None


@dataclass(slots=True)
class ClientQuotasChanged(Event):
    """Quotas of clients were set, changed or removed. `quotas` lists the first 1,000 of `quotas_total`."""

    TYPE: ClassVar[str] = "client_quotas_changed"
    quotas: list[QuotaChange] = field(default_factory=list)
    quotas_total: int = 0
    by: Client = field(default_factory=Client)

    @property
    def key(self) -> str:
        return _only(entity_text(each.entity) for each in self.quotas)


def entity_text(entity: Mapping[str, str | None]) -> str:
    """The entity of a quota as people read it: `user alice, client-id (default)`."""
    return ", ".join(f"{kind} {'(default)' if name is None else name}" for kind, name in entity.items())


@dataclass(slots=True)
class TokenChange:
    """A delegation token. `change` is created, renewed (valid for longer), shortened, removed, or expired (removed by
    the cluster after its time). The token is valid until `expires_ms`, which a renewal may move to `max_ms` at most. A
    client that logs in with the token is authenticated as its owner; the requester created it.
    """

    token_id: str = ""
    owner: str = ""
    requester: str = ""
    change: str = ""
    expires_ms: int = 0
    max_ms: int = 0


@dataclass(slots=True)
class DelegationTokensChanged(Event):
    """Delegation tokens were created, renewed or removed. `tokens` lists the first 1,000 of `tokens_total`. The event
    contains no HMAC, which is the password of a token. The principal of `by` is broker for expired tokens.
    """

    TYPE: ClassVar[str] = "delegation_tokens_changed"
    tokens: list[TokenChange] = field(default_factory=list)
    tokens_total: int = 0
    by: Client = field(default_factory=Client)

    @property
    def key(self) -> str:
        return _only(each.owner for each in self.tokens)


@dataclass(slots=True)
class LoginFailed(Event):
    """Clients could not log in. A broker combines equal failures for up to 10 seconds: `count` is their number since
    `first_ms`. In that time, the broker writes events for at most 50 different failures; `left_out`, in the first
    event, is the number of the others. `user` is the name that the client sent; `again` is true if the client wanted to
    renew a session. The `mechanism` TLS, without a user, is a handshake that the broker refused, or that the client
    refused with a reason. Connections that only end, such as those of health checks, are not reported.
    """

    TYPE: ClassVar[str] = "login_failed"
    listener: str = ""
    host: str = ""
    mechanism: str = ""
    user: str = ""
    reason: str = ""
    again: bool = False
    count: int = 0
    first_ms: int = 0
    left_out: int = 0

    @property
    def key(self) -> str:
        return self.user


@dataclass(slots=True)
class AccessDenied(Event):
    """A client was denied an operation on a resource that it named. A broker combines equal denials as in login_failed.
    `reason` is denied (by `rule`), no_match (`near` has up to three ACLs on the resource that allow something similar),
    no_acl_denied (no ACL concerns the resource) or not_loaded (the broker did not know the ACLs yet).
    """

    TYPE: ClassVar[str] = "access_denied"
    principal: str = ""
    host: str = ""
    api: str = ""
    operation: str = ""
    resource_type: str = ""
    resource: str = ""
    reason: str = ""
    rule: Acl | None = None
    near: list[Acl] = field(default_factory=list)
    count: int = 0
    first_ms: int = 0
    left_out: int = 0

    @property
    def key(self) -> str:
        return self.principal


@dataclass(slots=True)
class CertificateExchanged(Event):
    """A listener uses another key store or trust store for connections from now on. `subject` and `not_after_ms` are
    those of the certificate in use, the `before_` ones of the certificate before, which may be the same.
    """

    TYPE: ClassVar[str] = "certificate_exchanged"
    listener: str = ""
    subject: str = ""
    not_after_ms: int = 0
    before_subject: str = ""
    before_not_after_ms: int = 0

    @property
    def key(self) -> str:
        return self.listener


@dataclass(slots=True)
class CertificateRefused(Event):
    """A changed key store or trust store of a listener is not used. `subject` and `not_after_ms` are those of the
    certificate that stays in use; they are empty and 0 if the node only connects to this listener of other nodes,
    without a certificate. Equal events are written once in 10 seconds.
    """

    TYPE: ClassVar[str] = "certificate_refused"
    listener: str = ""
    reason: str = ""
    subject: str = ""
    not_after_ms: int = 0

    @property
    def key(self) -> str:
        return self.listener


@dataclass(slots=True)
class CertificateExpires(Event):
    """The certificate of a listener expires within `days` (30, 7 or 1), or has expired (0). The broker writes one event
    for each of these values, and after a start one for the lowest value that applies.
    """

    TYPE: ClassVar[str] = "certificate_expires"
    listener: str = ""
    subject: str = ""
    not_after_ms: int = 0
    days: int = 0

    @property
    def key(self) -> str:
        return self.listener


@dataclass(slots=True)
class Access:
    """The operations that a client performed, or tried, on a resource; `operations` has Kafka's names."""

    principal: str = ""
    host: str = ""
    resource_type: str = ""
    resource: str = ""
    operations: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Accesses(Event):
    """Accesses of clients that a broker with an authorizer allowed or denied: each of them once an hour, within ten
    seconds of its first use in that hour. Accesses of super users are not listed. In an hour, a broker records at most
    10,000 accesses to named resources, 10,000 to resources in lists and 2,000 denied ones; `left_out` is the number of
    the others since the last event. `allow_if_no_acl` is the broker's allow.everyone.if.no.acl.found.
    """

    TYPE: ClassVar[str] = "accesses"
    accesses: list[Access] = field(default_factory=list)
    left_out: int = 0
    allow_if_no_acl: bool = False


def _only(names: Iterable[str]) -> str:
    """The name if it is the same everywhere; empty if it is not."""
    found = set(names)
    return found.pop() if len(found) == 1 else ""


@dataclass(slots=True)
class Commits(Event):
    """Offsets that a group committed, or to which a share group has advanced: at most one per partition and second.
    Those of a share group come from the leaders of its partitions, when records were completed or became available
    again.
    """

    TYPE: ClassVar[str] = "commits"
    group: str = ""
    offsets: list[Committed] = field(default_factory=list)

    @property
    def key(self) -> str:
        return self.group


EVENTS: dict[str, type[Event]] = {
    kind.TYPE: kind
    for kind in (
        Rebalance,
        GroupEpoch,
        GroupConverted,
        ShareLeaderChanged,
        StreamsStatus,
        StaticReplacement,
        TransactionTimedOut,
        TopicCreated,
        TopicDeleted,
        PartitionsAdded,
        RecordsDeleted,
        ShareRecordsChanged,
        ConfigChanged,
        CopyFlowChanged,
        StreamsInstanceChanged,
        BrokerStarted,
        BrokerStopped,
        BrokerFenced,
        BrokerUnfenced,
        DirectoryFailed,
        ReplicaMoved,
        MirrorChanged,
        MirrorFailed,
        MirrorTruncated,
        ControllerChanged,
        LeadersElected,
        InSyncBelowMin,
        AclsCreated,
        AclsDeleted,
        ScramUsersChanged,
        ClientQuotasChanged,
        DelegationTokensChanged,
        LoginFailed,
        AccessDenied,
        CertificateExchanged,
        CertificateRefused,
        CertificateExpires,
        Accesses,
        Commits,
    )
}
# Events that only programs read: there are many, and they say what happens all the time.
ROUTINE = frozenset({Commits.TYPE, Accesses.TYPE})
_NESTED: dict[type, dict[str, type]] = {
    Rebalance: {"triggers": Trigger, "moves": Move},
    GroupEpoch: {"trigger": Trigger},
    ShareLeaderChanged: {"partitions": HeldRecords},
    StreamsStatus: {"statuses": GroupStatus},
    ConfigChanged: {"changes": ConfigChange},
    AclsCreated: {"acls": Acl},
    AclsDeleted: {"acls": Acl},
    ScramUsersChanged: {"credentials": Credential},
    ClientQuotasChanged: {"quotas": QuotaChange},
    DelegationTokensChanged: {"tokens": TokenChange},
    AccessDenied: {"rule": Acl, "near": Acl},
    Accesses: {"accesses": Access},
    Commits: {"offsets": Committed},
}

T = TypeVar("T", bound="DataclassInstance")


@dataclass(frozen=True, slots=True)
class Stamped:
    """An event with its time, and the broker that wrote it; -1 if another program did."""

    time_ms: int
    broker: int
    event: Event

    @property
    def key(self) -> str:
        """The subject of the event; that of its own start and stop is the broker."""
        if isinstance(self.event, BrokerStarted | BrokerStopped):
            return f"broker {self.broker}"
        return self.event.key


def cut(text: str) -> str:
    """The text as events contain it."""
    return text if len(text) <= TEXT_CHARACTERS_MAX else text[:TEXT_CHARACTERS_MAX] + "..."


def encode(stamped: Stamped) -> tuple[bytes, bytes]:
    """Return (key, value) of its record."""
    event = stamped.event
    head = {"type": event.TYPE, "version": event.VERSION, "time_ms": stamped.time_ms, "broker": stamped.broker}
    value = json.dumps(head | asdict(event), separators=(",", ":"), ensure_ascii=False)
    return stamped.key.encode(), value.encode("utf-8", "surrogatepass")


def prefix_of(kind: type[Event]) -> bytes:
    """Return the bytes with which every record of a type begins, so that readers can skip records without decoding."""
    return f'{{"type":"{kind.TYPE}",'.encode()


def decode(value: bytes) -> Stamped | None:
    """Return the event of a record; None for a type or version that this code does not know. Raises ValueError if the
    record is not an event.
    """
    try:
        found = json.loads(value)
        kind = EVENTS.get(found["type"])
        if kind is None or found["version"] != kind.VERSION:
            return None
        return Stamped(int(found["time_ms"]), int(found["broker"]), _built(kind, found))
    except (KeyError, TypeError, UnicodeDecodeError) as error:
        raise ValueError(f"not an event: {error!r} in {value[:100]!r}") from error


def _built(kind: type[T], found: dict[str, Any]) -> T:
    """Build the dataclass from the fields that are present."""
    nested = _NESTED.get(kind, {})
    arguments: dict[str, Any] = {}
    for each in fields(kind):
        if each.name not in found:
            continue
        value = found[each.name]
        if each.name in nested:
            part = nested[each.name]
            if value is not None:
                value = [_built(part, item) for item in value] if isinstance(value, list) else _built(part, value)
        elif each.name == "by":
            value = _built(Client, value)
        arguments[each.name] = value
    return kind(**arguments)
