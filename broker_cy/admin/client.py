"""The admin client: every call of the core, over one set of connections."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING

from broker_cy.admin.accesses import AccessCalls
from broker_cy.admin.acls import AclCalls
from broker_cy.admin.address import Address, parse_addresses
from broker_cy.admin.brokers import BrokerCalls
from broker_cy.admin.caller import Caller
from broker_cy.admin.cluster import ClusterCalls
from broker_cy.admin.commit_notes import CommitNotes, CommitTail, EventTimestamps
from broker_cy.admin.configs import ConfigCalls
from broker_cy.admin.coordinators import Coordinators, CoordinatorType
from broker_cy.admin.directory_mover import DirectoryMoverCalls
from broker_cy.admin.group_lag import LagCalls, RecordTimestamps
from broker_cy.admin.group_offsets import GroupOffsetCalls
from broker_cy.admin.group_positions import PositionCalls
from broker_cy.admin.groups import GroupCalls
from broker_cy.admin.log_dirs import LogDirCalls
from broker_cy.admin.metadata import Metadata
from broker_cy.admin.mover import MoverCalls, MoverParts
from broker_cy.admin.offsets import OffsetCalls
from broker_cy.admin.own_topics import event_topic, sample_topic
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
from broker_cy.admin.transactional import TIMEOUT_MS, TransactionalProducer
from broker_cy.admin.transactions import TransactionCalls
from broker_cy.client.deadline import DEFAULT_TIMEOUT_S
from broker_cy.client.login import ClientLogin
from broker_cy.client.outgoing import MACHINE
from broker_cy.client.pool import Pool
from broker_cy.wire.compression import Codec

if TYPE_CHECKING:
    import ssl

DEFAULT_CLIENT_ID = "broker-cy-admin"


class AdminClient:
    """A client of broker-cy or Apache Kafka, over TCP, with TLS or without. Use it inside one running loop, and close
    it there.

    `bootstrap` is `HOST:PORT`, several of them separated by commas, or a list of addresses. A call takes `timeout_s` at
    most, with all its attempts; `with_timeout` returns the same client with another limit. The first call connects.
    Calls raise ClientError; calls for several resources return an Outcome with the results, and an ClientError for each
    resource that failed.
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
        self._set_up(
            Caller(metadata, timeout_s),
            Coordinators(metadata, CoordinatorType.GROUP),
            Coordinators(metadata, CoordinatorType.TRANSACTION),
            CommitTail(CommitNotes()),
        )

    def _set_up(self, caller: Caller, groups: Coordinators, transactions: Coordinators, commits: CommitTail) -> None:
        self.caller = caller
        self._group_coordinators = groups
        self._txn_coordinators = transactions
        self.cluster = ClusterCalls(caller)
        self.configs = ConfigCalls(caller)
        self.reassignments = ReassignmentCalls(caller)
        self.topics = TopicCalls(caller, self.configs, self.reassignments)
        self.offsets = OffsetCalls(caller)
        self.groups = GroupCalls(caller, groups)
        self.group_offsets = GroupOffsetCalls(caller, groups)
        self.share_offsets = ShareOffsetCalls(caller, groups)
        self.share_records = ShareRecordCalls(caller)
        self.positions = PositionCalls(self.groups, self.group_offsets, self.share_offsets)
        self.reset = ResetCalls(self.groups, self.positions, self.offsets)
        self.log_dirs = LogDirCalls(caller)
        self.records = RecordCalls(caller, self.offsets)
        self.events = event_topic(self.records)
        self.samples = sample_topic(self.records)
        self._commits = commits
        self.quorum = QuorumCalls(caller)
        self.quotas = QuotaCalls(caller)
        self.brokers = BrokerCalls(caller, self.cluster, self.topics, self.log_dirs, self.configs)
        self.partition_health = PartitionHealthCalls(caller, self.configs)
        self.throttles = ThrottleCalls(self.configs)
        self.mover = MoverCalls(
            MoverParts(self.cluster, self.reassignments, self.topics, self.log_dirs, self.throttles)
        )
        self.directory_mover = DirectoryMoverCalls(self.log_dirs, self.throttles)
        self.timestamps = EventTimestamps(commits, self.events, RecordTimestamps(self.records))
        self.lag = LagCalls(self.offsets, self.positions, self.timestamps)
        self.transactions = TransactionCalls(caller, transactions)
        self.acls = AclCalls(caller)
        self.accesses = AccessCalls(self.events)
        self.scram_users = ScramUserCalls(caller)
        self.tokens = TokenCalls(caller)

    def with_timeout(self, timeout_s: float) -> AdminClient:
        """This client, with its connections, whose calls take `timeout_s` at most."""
        other = object.__new__(AdminClient)
        caller = Caller(self.caller.metadata, timeout_s)
        other._set_up(caller, self._group_coordinators, self._txn_coordinators, self._commits)
        return other

    def topic_log(self, topic: str, take: Take, settings: LogSettings | None = None) -> TopicLog:
        """Follows a compacted topic from its start, and appends to it: see TopicLog."""
        return TopicLog(self.caller, self.topics, self.configs, topic, take, settings or LogSettings())

    def transactional_producer(
        self,
        transactional_id: str,
        *,
        timeout_ms: int = TIMEOUT_MS,
        codec: Codec = Codec.NONE,
        level: int | None = None,
    ) -> TransactionalProducer:
        """Sends records in transactions: see TransactionalProducer."""
        return TransactionalProducer(
            self.caller,
            self._group_coordinators,
            self._txn_coordinators,
            transactional_id,
            timeout_ms=timeout_ms,
            codec=codec,
            level=level,
        )

    async def close(self) -> None:
        """Close the connections; calls in progress fail."""
        await self.caller.pool.close()

    async def __aenter__(self) -> AdminClient:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
