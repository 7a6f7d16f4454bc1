"""The admin client: every call of the core, over one set of connections."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from types import TracebackType
from typing import TYPE_CHECKING, Any

from broker_cy.admin.address import Address, parse_addresses
from broker_cy.admin.caller import Caller
from broker_cy.admin.coordinators import Coordinators, CoordinatorType
from broker_cy.admin.metadata import Metadata
from broker_cy.client.deadline import DEFAULT_TIMEOUT_S
from broker_cy.client.login import ClientLogin
from broker_cy.client.outgoing import MACHINE
from broker_cy.client.pool import Pool
from broker_cy.wire.compression import Codec

if TYPE_CHECKING:
    import ssl

    from broker_cy.admin.accesses import AccessCalls
    from broker_cy.admin.acls import AclCalls
    from broker_cy.admin.brokers import BrokerCalls
    from broker_cy.admin.cluster import ClusterCalls
    from broker_cy.admin.commit_notes import CommitTail, EventTimestamps
    from broker_cy.admin.configs import ConfigCalls
    from broker_cy.admin.coordinator_link import CoordinatorLink
    from broker_cy.admin.directory_mover import DirectoryMoverCalls
    from broker_cy.admin.group_lag import LagCalls
    from broker_cy.admin.group_offsets import GroupOffsetCalls
    from broker_cy.admin.group_positions import PositionCalls
    from broker_cy.admin.groups import GroupCalls
    from broker_cy.admin.log_dirs import LogDirCalls
    from broker_cy.admin.mover import MoverCalls
    from broker_cy.admin.offsets import OffsetCalls
    from broker_cy.admin.own_topics import OwnTopic
    from broker_cy.admin.partition_health import PartitionHealthCalls
    from broker_cy.admin.quorum import QuorumCalls
    from broker_cy.admin.quotas import QuotaCalls
    from broker_cy.admin.reassignments import ReassignmentCalls
    from broker_cy.admin.records import RecordCalls
    from broker_cy.admin.reset import ResetCalls
    from broker_cy.admin.scram_users import ScramUserCalls
    from broker_cy.admin.share_offsets import ShareOffsetCalls
    from broker_cy.admin.share_records import ShareRecordCalls
    from broker_cy.admin.throttles import ThrottleCalls
    from broker_cy.admin.tokens import TokenCalls
    from broker_cy.admin.topic_log import LogSettings, Take, TopicLog
    from broker_cy.admin.topics import TopicCalls
    from broker_cy.admin.transactional import TransactionalProducer
    from broker_cy.admin.transactions import TransactionCalls
    from broker_cy.client.group_member import GroupMember
    from broker_cy.metrics.events import Stamped
    from broker_cy.metrics.sample import Sample

DEFAULT_CLIENT_ID = "broker-cy-admin"


class AdminClient:
    """A client of broker-cy or Apache Kafka, over TCP, with TLS or without. Use it inside one running loop, and close
    it there.

    `bootstrap` is `HOST:PORT`, several of them separated by commas, or a list of addresses. A call takes `timeout_s` at
    most, with all its attempts; `with_timeout` returns the same client with another limit. The first call connects.
    Calls raise ClientError; calls for several resources return an Outcome with the results, and an ClientError for each
    resource that failed. The modules of calls are imported when the calls are first used: all of them take longer than
    the rest of a program's start.
    """

    def __init__(
        self,
        bootstrap: str | Sequence[Address],
        *,
        timeout_s: float = DEFAULT_TIMEOUT_S,
        client_id: str = DEFAULT_CLIENT_ID,
        login: ClientLogin | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """`login` is the login of each connection, None for listeners without SASL; `tls` protects connections to
        listeners with TLS.
        """
        addresses = parse_addresses(bootstrap) if isinstance(bootstrap, str) else tuple(bootstrap)
        metadata = Metadata(
            Pool(client_id, replace(MACHINE, login=login, tls=None if tls is None else lambda: tls)), addresses
        )
        self.caller = Caller(metadata, timeout_s)
        self._group_coordinators = Coordinators(metadata, CoordinatorType.GROUP)
        self._txn_coordinators = Coordinators(metadata, CoordinatorType.TRANSACTION)
        self._origin: AdminClient | None = None

    def with_timeout(self, timeout_s: float) -> AdminClient:
        """This client, with its connections, whose calls take `timeout_s` at most."""
        other = object.__new__(AdminClient)
        other.caller = Caller(self.caller.metadata, timeout_s)
        other._group_coordinators, other._txn_coordinators = self._group_coordinators, self._txn_coordinators
        other._origin = self
        return other

    def topic_log(self, topic: str, take: Take, settings: LogSettings | None = None) -> TopicLog:
        """Follows a compacted topic from its start, and appends to it: see TopicLog."""
        from broker_cy.admin.topic_log import LogSettings, TopicLog

        return TopicLog(self.caller, self.topics, self.configs, topic, take, settings or LogSettings())

    def transactional_producer(
        self,
        transactional_id: str,
        *,
        timeout_ms: int | None = None,
        codec: Codec = Codec.NONE,
        level: int | None = None,
    ) -> TransactionalProducer:
        """Sends records in transactions: see TransactionalProducer. `timeout_ms` None is its default."""
        from broker_cy.admin.transactional import TIMEOUT_MS, TransactionalProducer

        return TransactionalProducer(
            self.caller,
            self._group_coordinators,
            self._txn_coordinators,
            transactional_id,
            timeout_ms=TIMEOUT_MS if timeout_ms is None else timeout_ms,
            codec=codec,
            level=level,
        )

    def coordinator_link(self, member: GroupMember[Any]) -> CoordinatorLink:
        """Sends the requests of a member of a group: see CoordinatorLink."""
        from broker_cy.admin.coordinator_link import CoordinatorLink

        return CoordinatorLink(self.caller, self._group_coordinators, member)

    # ------------------------------------------------------------------------------------------------ calls

    @cached_property
    def cluster(self) -> ClusterCalls:
        from broker_cy.admin.cluster import ClusterCalls

        return ClusterCalls(self.caller)

    @cached_property
    def configs(self) -> ConfigCalls:
        from broker_cy.admin.configs import ConfigCalls

        return ConfigCalls(self.caller)

    @cached_property
    def reassignments(self) -> ReassignmentCalls:
        from broker_cy.admin.reassignments import ReassignmentCalls

        return ReassignmentCalls(self.caller)

    @cached_property
    def topics(self) -> TopicCalls:
        from broker_cy.admin.topics import TopicCalls

        return TopicCalls(self.caller, self.configs, self.reassignments)

    @cached_property
    def offsets(self) -> OffsetCalls:
        from broker_cy.admin.offsets import OffsetCalls

        return OffsetCalls(self.caller)

    @cached_property
    def groups(self) -> GroupCalls:
        from broker_cy.admin.groups import GroupCalls

        return GroupCalls(self.caller, self._group_coordinators)

    @cached_property
    def group_offsets(self) -> GroupOffsetCalls:
        from broker_cy.admin.group_offsets import GroupOffsetCalls

        return GroupOffsetCalls(self.caller, self._group_coordinators)

    @cached_property
    def share_offsets(self) -> ShareOffsetCalls:
        from broker_cy.admin.share_offsets import ShareOffsetCalls

        return ShareOffsetCalls(self.caller, self._group_coordinators)

    @cached_property
    def share_records(self) -> ShareRecordCalls:
        from broker_cy.admin.share_records import ShareRecordCalls

        return ShareRecordCalls(self.caller)

    @cached_property
    def positions(self) -> PositionCalls:
        from broker_cy.admin.group_positions import PositionCalls

        return PositionCalls(self.groups, self.group_offsets, self.share_offsets)

    @cached_property
    def reset(self) -> ResetCalls:
        from broker_cy.admin.reset import ResetCalls

        return ResetCalls(self.groups, self.positions, self.offsets)

    @cached_property
    def log_dirs(self) -> LogDirCalls:
        from broker_cy.admin.log_dirs import LogDirCalls

        return LogDirCalls(self.caller)

    @cached_property
    def records(self) -> RecordCalls:
        from broker_cy.admin.records import RecordCalls

        return RecordCalls(self.caller, self.offsets)

    @cached_property
    def events(self) -> OwnTopic[Stamped]:
        from broker_cy.admin.own_topics import event_topic

        return event_topic(self.records)

    @cached_property
    def samples(self) -> OwnTopic[Sample]:
        from broker_cy.admin.own_topics import sample_topic

        return sample_topic(self.records)

    @cached_property
    def quorum(self) -> QuorumCalls:
        from broker_cy.admin.quorum import QuorumCalls

        return QuorumCalls(self.caller)

    @cached_property
    def quotas(self) -> QuotaCalls:
        from broker_cy.admin.quotas import QuotaCalls

        return QuotaCalls(self.caller)

    @cached_property
    def brokers(self) -> BrokerCalls:
        from broker_cy.admin.brokers import BrokerCalls

        return BrokerCalls(self.caller, self.cluster, self.topics, self.log_dirs, self.configs)

    @cached_property
    def partition_health(self) -> PartitionHealthCalls:
        from broker_cy.admin.partition_health import PartitionHealthCalls

        return PartitionHealthCalls(self.caller, self.configs)

    @cached_property
    def throttles(self) -> ThrottleCalls:
        from broker_cy.admin.throttles import ThrottleCalls

        return ThrottleCalls(self.configs)

    @cached_property
    def mover(self) -> MoverCalls:
        from broker_cy.admin.mover import MoverCalls, MoverParts

        parts = MoverParts(self.cluster, self.reassignments, self.topics, self.log_dirs, self.throttles)
        return MoverCalls(parts)

    @cached_property
    def directory_mover(self) -> DirectoryMoverCalls:
        from broker_cy.admin.directory_mover import DirectoryMoverCalls

        return DirectoryMoverCalls(self.log_dirs, self.throttles)

    @cached_property
    def timestamps(self) -> EventTimestamps:
        from broker_cy.admin.commit_notes import EventTimestamps
        from broker_cy.admin.group_lag import RecordTimestamps

        return EventTimestamps(self._commits, self.events, RecordTimestamps(self.records))

    @cached_property
    def _commits(self) -> CommitTail:
        """The commits that were found already: those of the client that this one was made from."""
        from broker_cy.admin.commit_notes import CommitNotes, CommitTail

        return CommitTail(CommitNotes()) if self._origin is None else self._origin._commits

    @cached_property
    def lag(self) -> LagCalls:
        from broker_cy.admin.group_lag import LagCalls

        return LagCalls(self.offsets, self.positions, self.timestamps)

    @cached_property
    def transactions(self) -> TransactionCalls:
        from broker_cy.admin.transactions import TransactionCalls

        return TransactionCalls(self.caller, self._txn_coordinators)

    @cached_property
    def acls(self) -> AclCalls:
        from broker_cy.admin.acls import AclCalls

        return AclCalls(self.caller)

    @cached_property
    def accesses(self) -> AccessCalls:
        from broker_cy.admin.accesses import AccessCalls

        return AccessCalls(self.events)

    @cached_property
    def scram_users(self) -> ScramUserCalls:
        from broker_cy.admin.scram_users import ScramUserCalls

        return ScramUserCalls(self.caller)

    @cached_property
    def tokens(self) -> TokenCalls:
        from broker_cy.admin.tokens import TokenCalls

        return TokenCalls(self.caller)

    async def close(self) -> None:
        """Close the connections; calls in progress fail."""
        await self.caller.pool.close()

    async def __aenter__(self) -> AdminClient:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
