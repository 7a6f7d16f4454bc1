"""The services that handlers use, in one place."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from broker_cy.access.authorization import Authorization
from broker_cy.access.login_calls import LoginCalls
from broker_cy.broker.client_instances import ClientInstances
from broker_cy.broker.client_quotas import ClientQuotas
from broker_cy.client.login import ClientLogin, KerberosMissing
from broker_cy.client.oauth import TokenSource
from broker_cy.client.outgoing import Outgoing
from broker_cy.control.watch.suspects import Departed, Suspects
from broker_cy.core.config_def.types import ConfigError
from broker_cy.events.access_journal import AccessJournal
from broker_cy.events.denials import Denials
from broker_cy.events.log_events import LogEvents
from broker_cy.events.own_topic_leader import OwnTopicLeader
from broker_cy.metrics.login_counts import LoginCounts, TlsCounts
from broker_cy.network.certificate_reports import CertificateReports
from broker_cy.network.ip_overrides import IpOverrides
from broker_cy.security.sasl.oauthbearer import TokenEndpoint

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from concurrent.futures import Executor

    from broker_cy.access.tokens import Tokens
    from broker_cy.config import BrokerConfig, TopicSettings
    from broker_cy.config.sasl import NodeLogin
    from broker_cy.control.controller_service import ControllerService
    from broker_cy.control.topics.auto_topics import AutoTopics
    from broker_cy.coordinator_services.group_service import GroupService
    from broker_cy.coordinator_services.share_groups import ShareGroups
    from broker_cy.coordinator_services.share_persister import SharePersister
    from broker_cy.coordinator_services.share_state_service import ShareStateService
    from broker_cy.coordinator_services.txn_markers import TxnMarkers
    from broker_cy.coordinator_services.txn_service import TransactionService
    from broker_cy.events.event_log import EventLog
    from broker_cy.metadata.image import MetadataImage
    from broker_cy.network.node_tls import NodeTls
    from broker_cy.network.seams import Seams
    from broker_cy.partitions.directory_moves import DirectoryMoves
    from broker_cy.partitions.openings import Openings
    from broker_cy.replica.partition_table import PartitionTable
    from broker_cy.replication.mirror_view import MirrorView
    from broker_cy.share_service.share_service import ShareService
    from broker_cy.storage.log_manager import LogManager


def _login(login: NodeLogin | None, seams: Seams) -> ClientLogin | None:
    """Raises ConfigError."""
    if login is None:
        return None
    if isinstance(login, TokenEndpoint):
        return ClientLogin(TokenSource(login, seams.clock.monotonic), seams.randomness)
    try:
        return ClientLogin(login, seams.randomness)
    except KerberosMissing as error:
        raise ConfigError(str(error)) from None


def _tls(config: BrokerConfig, reports: CertificateReports) -> NodeTls | None:
    """The TLS of this node; None without TLS. Raises ConfigError."""
    if not config.tls.names:
        return None
    # Imported here, because a broker without TLS needs none of it.
    from broker_cy.network.node_tls import NodeTls

    return NodeTls(config, reports)


class Broker:
    """One broker: configuration, its world and the services that hold its state. Built and started by `lifecycle`."""

    def __init__(self, config: BrokerConfig, seams: Seams) -> None:
        self.config = config
        self.clock = seams.clock
        self.randomness = seams.randomness
        self.loop = seams.loop
        self.tls = _tls(config, CertificateReports(seams.clock, lambda event: self.events.note(event)))
        outgoing_tls = {} if self.tls is None else self.tls.outgoing
        # To other brokers, on the listener between brokers, and to controllers, each with its login.
        self.outgoing = Outgoing(
            seams.network.connect,
            seams.clock,
            login=_login(config.sasl.to_brokers, seams),
            tls=outgoing_tls.get(config.tls.names_to[0]),
        )
        self.to_controllers = replace(
            self.outgoing,
            login=_login(config.sasl.to_controllers, seams),
            tls=outgoing_tls.get(config.tls.names_to[1]),
        )
        self.log_events = LogEvents(seams.clock)
        self.login_counts = LoginCounts()
        self.login_calls = LoginCalls(seams.loop, seams.workers.pool)
        self.quotas = ClientQuotas(config, seams.clock)
        self.tls_counts = TlsCounts()
        self.client_instances = ClientInstances(seams.clock)
        self.ip_overrides = IpOverrides(config, seams.network)
        self.node_id: int = config.node_id
        self.cluster_id: str = ""
        self.log_manager: LogManager
        self.directory_moves: DirectoryMoves
        self.partitions: PartitionTable
        self.openings: Openings
        self.controller: ControllerService
        # None: every client may perform every operation.
        self.authorization: Authorization | None = None
        # None without logins.
        self.tokens: Tokens | None = None
        self.auto_topics: AutoTopics
        self.groups: GroupService
        self.txn_markers: TxnMarkers
        self.transactions: TransactionService
        self.share_state: ShareStateService
        self.share_persister: SharePersister
        self.share_groups: ShareGroups
        self.share: ShareService
        self.events: EventLog
        self.mirror_views: Callable[[], Iterable[MirrorView]] = lambda: ()
        self.denials: Denials
        self.own_topics = OwnTopicLeader(
            config.node_id,
            config.network.to_brokers[0],
            lambda: self.image,
            lambda: self.controller.has_peers,
            self.outgoing,
        )
        self.suspects = Suspects(seams.loop)
        self.departed = Departed(seams.loop)
        self.cold_reader: Executor  # reads what left the page cache

    @property
    def image(self) -> MetadataImage:
        """The newest committed metadata image."""
        return self.controller.image

    def follow_tokens(self) -> None:
        """Let clients log in with delegation tokens, if listeners have logins. Called when `controller` is set, before
        it starts.
        """
        if not self.config.sasl.listeners:
            return
        # Imported here, because most nodes have none, and start sooner without it.
        from broker_cy.access.tokens import Tokens

        self.tokens = Tokens(self.config.token_secret_key, lambda: self.image, self.clock)
        self.controller.subscribe(self.tokens.apply)

    def authorize(self) -> Authorization | None:
        """Set up the configured authorizer. Called at the start, before any client is served."""
        self.authorization = Authorization.of(
            self.config,
            lambda: self.controller.announced_end,
            lambda: self.image.offset + 1,
            self.log_events,
        )
        return self.authorization

    def report_rights(self) -> None:
        """Write denials, and the accesses of clients, as events. Called at the start, once the log of events exists."""
        self.denials = Denials(self.clock, self.loop, self.events.note)
        if self.authorization is None:
            return
        self.authorization.denials = self.denials
        if self.config["brokercy.events.enable"]:
            authorizer = self.authorization.authorizer
            self.authorization.journal = AccessJournal(
                self.loop, self.events.note, authorizer.forget, allow_if_no_acl=authorizer.allow_if_no_acl
            )

    def stop_reports(self) -> None:
        """Write the gathered events. Called before the log of events ends."""
        self.denials.stop()
        if self.authorization is not None and self.authorization.journal is not None:
            self.authorization.journal.stop()

    topic_settings: Callable[[str], TopicSettings]
