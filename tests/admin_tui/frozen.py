"""A session whose responses never change."""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable, Hashable, Mapping
from typing import Any

from broker_cy.admin.caller import Outcome
from broker_cy.admin.cluster import BrokerInfo, ClusterDescription, FeatureRange
from broker_cy.admin.configs import ConfigEntry, ConfigResource, ConfigSynonym, ResourceType
from broker_cy.admin.group_lag import GroupLag, PartitionLag
from broker_cy.admin.group_values import GroupDescription, GroupListing, GroupMember
from broker_cy.admin.lag import Status, Trend
from broker_cy.admin.log_dirs import LogDir, ReplicaOnDisk
from broker_cy.admin.metadata import PartitionInfo, TopicInfo, TopicPartition
from broker_cy.admin.partition_health import EligibleReplicas, PartitionHealth
from broker_cy.admin.quorum import QuorumDescription, QuorumEndpoint, QuorumReplica
from broker_cy.admin.quotas import QuotaEntry
from broker_cy.admin.reassignments import Reassignment
from broker_cy.admin.throttles import Throttle
from broker_cy.admin.tokens import DelegationToken
from broker_cy.admin.transactions import HangingTransaction, ProducerState, TransactionListing
from broker_cy.console.feed_values import GroupSummary, GroupView, OpenTransaction, PartitionRow
from broker_cy.console.feeds import Feed, Feeds
from broker_cy.console.moving import Moving, MovingPartition
from broker_cy.console.session import Session
from broker_cy.core.configs import ConfigSource, ConfigType
from broker_cy.metrics.events import (
    BrokerStarted,
    Client,
    ConfigChange,
    ConfigChanged,
    Event,
    Move,
    Rebalance,
    Stamped,
    TopicCreated,
    TransactionTimedOut,
    Trigger,
)
from broker_cy.metrics.sample import Api, Connection, QuotaUse, Sample, Times, Topic
from tests.admin_tui.conftest import entry_of
from tests.admin_tui.frozen_mirrors import FLOWS
from tests.support.streams_application import APPLICATION, APPLICATIONS, view

NOW_MS = 1_700_000_000_000
ORDERS, PAYMENTS = "orders", "payments"
_GB = 1 << 30


def _topic(name: str, partitions: int, offline: int = 0) -> TopicInfo:
    infos = tuple(
        PartitionInfo(n, -1 if n < offline else 1, 4, (1,), () if n < offline else (1,), ()) for n in range(partitions)
    )
    return TopicInfo(name, uuid.UUID(int=7), name.startswith("__"), infos)


TOPICS = (_topic("__cluster_events", 1), _topic("audit", 1, offline=1), _topic(ORDERS, 3), _topic(PAYMENTS, 12))
CLUSTER = ClusterDescription("abc", 1, (BrokerInfo(1, "broker-1", 9092, "rack-a", False),))
LOG_DIRS = Outcome(
    {
        1: (
            LogDir(
                1,
                "/srv/events",
                "",
                500 * _GB,
                20 * _GB,
                False,
                tuple(ReplicaOnDisk(ORDERS, n, 1_000_000 * (n + 1), 0, False) for n in range(3)),
            ),
            LogDir(
                1,
                "/srv/events-2",
                "",
                500 * _GB,
                400 * _GB,
                False,
                (ReplicaOnDisk(ORDERS, 1, 500_000, 1_234, True),),
            ),
            LogDir(1, "/srv/events-3", "KAFKA_STORAGE_ERROR", None, None, False, ()),
        )
    },
    {},
)
PARTITIONS = tuple(
    PartitionRow(n, 1, 4, (1,), (1,), 100 * n, 9_007_199_254_740_993 + n, 1_000_000 * (n + 1), "/srv/events", n + 1)
    for n in range(3)
)
GROUPS = tuple(
    GroupListing(name, "consumer", state, "classic")
    for name, state in (("billing", "Stable"), ("reports", "Empty"), ("search", "PreparingRebalance"))
)
LAGS = {
    "billing": GroupSummary(1_234, 3, True, Status.WARN, Trend(100.0, 120.0, None)),
    "reports": GroupSummary(98_765_432, 12, False, Status.STOPPED, Trend(0.0, 5.0, None)),
    "search": GroupSummary(0, 12, True, Status.OK, Trend(50.0, 50.0, 0.0)),
}
GROUP = GroupView(
    GroupDescription(
        "billing",
        "classic",
        "Stable",
        "consumer",
        "range",
        1,
        -1,
        -1,
        tuple(
            GroupMember(
                f"worker-{n}-0a1b2c",
                f"pod-{n}" if n else None,
                f"worker-{n}",
                f"/10.0.0.{n}",
                None,
                -1,
                (ORDERS,),
                None,
                tuple(TopicPartition(ORDERS, p) for p in ((0, 1), (2,))[n]),
                None,
            )
            for n in range(2)
        ),
    ),
    GroupLag(
        "billing",
        tuple(
            PartitionLag(TopicPartition(ORDERS, n), 1_000, 0, 1_000 + lag, commit_ms=NOW_MS - 500)
            for n, lag in enumerate((0, 1_200, 34))
        ),
    ),
    {TopicPartition(ORDERS, 0): 0, TopicPartition(ORDERS, 1): 83_000, TopicPartition(ORDERS, 2): 4_200},
    frozenset({TopicPartition(ORDERS, 1)}),
    Status.WARN,
    Trend(100.0, 120.0, None),
    NOW_MS,
)


def _config(name: str, value: str | None, source: ConfigSource, kind: ConfigType, *, read_only: bool = False) -> Any:
    other = ConfigSynonym(f"log.{name}", "1", ConfigSource.DEFAULT_CONFIG)
    return ConfigEntry(
        name, value, source, read_only, False, kind, (ConfigSynonym(name, value, source), other), f"What {name} is for."
    )


CONFIGS = (
    _config("cleanup.policy", "compact", ConfigSource.DYNAMIC_TOPIC_CONFIG, ConfigType.LIST),
    _config("compression.type", "producer", ConfigSource.DEFAULT_CONFIG, ConfigType.STRING),
    _config("max.message.bytes", "1048588", ConfigSource.DEFAULT_CONFIG, ConfigType.INT),
    _config("retention.ms", "604800000", ConfigSource.STATIC_BROKER_CONFIG, ConfigType.LONG),
    _config("node.id", "1", ConfigSource.STATIC_BROKER_CONFIG, ConfigType.INT, read_only=True),
)
TRANSACTIONS = (
    OpenTransaction(TransactionListing("pay-1", 1_000, "Ongoing", 1), 90_000, 60_000, (TopicPartition(PAYMENTS, 3),)),
    OpenTransaction(TransactionListing("pay-2", 1_001, "CompleteCommit", 1), None, None, ()),
)
_PRODUCER = ProducerState(4_000, 2, 77, NOW_MS - 5_000, 0, 900)
HANGING = (HangingTransaction(TopicPartition(PAYMENTS, 7), _PRODUCER, None, 3_600_000),)
PRODUCERS = tuple((TopicPartition(ORDERS, n), _PRODUCER) for n in range(3))
QUORUM = QuorumDescription(
    1,
    9,
    12_345,
    (
        QuorumReplica(1, "dir-1", 12_345, 0, NOW_MS, NOW_MS - 10, (QuorumEndpoint("CONTROLLER", "10.0.0.1", 9093),)),
        QuorumReplica(2, "dir-2", 12_340, 5, NOW_MS, NOW_MS - 900, (QuorumEndpoint("CONTROLLER", "10.0.0.2", 9093),)),
    ),
    (QuorumReplica(4, "dir-4", 12_000, 345, NOW_MS, NOW_MS - 60_000),),
)
MOVES = Moving(
    (
        MovingPartition(Reassignment(TopicPartition(ORDERS, 0), (1, 3, 2), (3,), (2,)), 400 << 20, 2 * _GB),
        MovingPartition(Reassignment(TopicPartition(PAYMENTS, 7), (3, 1, 2), (3,), (2,)), 0, 0),
    ),
    Throttle({1: {"leader.replication.throttled.rate": 50 << 20}, 3: {}}, {ORDERS: {}}),
    48.5 * (1 << 20),
)
SICK = tuple(
    PartitionHealth(TopicPartition(topic, number), PartitionInfo(number, leader, 4, (1, 2, 3), in_sync, ()), 2, elr)
    for topic, number, leader, in_sync, elr in (
        ("audit", 0, -1, (), EligibleReplicas((2,), ())),
        (ORDERS, 2, 1, (1, 3), None),
        (PAYMENTS, 7, 1, (1,), EligibleReplicas((2, 3), ())),
    )
)
QUOTAS = [
    QuotaEntry({"client-id": None}, {"producer_byte_rate": 50.0 * (1 << 20)}),
    QuotaEntry({"ip": "10.0.0.7"}, {"connection_creation_rate": 2.0}),
    QuotaEntry({"user": "alice", "client-id": "batch"}, {"consumer_byte_rate": 1e7, "controller_mutation_rate": 5.0}),
    QuotaEntry({"user": None}, {"request_percentage": 12.5}),
]
TOKENS = (
    DelegationToken(
        "gVDMTmt7RKyE1Wkxbn0KmA",
        "User:alice",
        "User:admin",
        ("User:scheduler",),
        NOW_MS - 86_400_000,
        NOW_MS + 60_000,
        NOW_MS + 6 * 86_400_000,
    ),
    DelegationToken(
        "AAAAAAAAAAAAAAAAAAAAAA", "User:billing", "User:billing", (), NOW_MS - 9_000, NOW_MS - 1, (1 << 63) - 1
    ),
)
FEATURES = (FeatureRange("metadata.version", 7, 30, 30), FeatureRange("transaction.version", 0, 2, 2))


def samples() -> list[Sample]:
    """Return the samples of two minutes, in which the rate falls and rises."""
    made = []
    for n in range(120):
        rate = 1_000 + 800 * abs(60 - n) // 60
        times = Times(rate, rate * 200, 150, 400 + 10 * (n % 30), 2_000)
        made.append(
            Sample(
                time_ms=NOW_MS - (120 - n) * 1_000,
                broker=1,
                interval_ms=1_000,
                uptime_ms=3_600_000,
                cpu_us=230_000,
                resident_bytes=52 << 20,
                open_fds=88,
                loop_lag=Times(100, 1_000, 10, 800, 2_000),
                connections=12,
                partitions=17,
                groups={"Stable": 1, "Empty": 2},
                members=2,
                transactions={"Ongoing": 1},
                disks={"/srv/events": (20 * _GB, 500 * _GB)},
                apis={
                    "Produce": Api(rate, {}, rate * 1_000, rate * 40, {"handler": times, "total": times}),
                    "Fetch": Api(
                        50, {"NOT_LEADER_OR_FOLLOWER": 2}, 5_000, 90_000, {"total": Times(50, 10**7, 1, 2, 3)}
                    ),
                },
                topics={ORDERS: Topic(rate, rate * 900, rate * 1_800), PAYMENTS: Topic(10, 5_000, 0)},
                busy=[Connection("c-1", "worker-0", "10.0.0.1", "PLAINTEXT", 60_000, 20, rate * 900, 4_000)],
                busy_left_out=3,
                quotas=[
                    QuotaUse(
                        "consumer_byte_rate", "alice", "batch", 1e7, 1.02e7, 1 if n % 4 else 0, 250 if n % 4 else 0
                    ),
                    QuotaUse("producer_byte_rate", "", "worker-0", 50.0 * (1 << 20), rate * 900.0),
                    QuotaUse("connection_creation_rate", "", "10.0.0.7", 2.0, 1.7),
                ],
                quotas_left_out=4,
            )
        )
    return made


def events() -> list[Stamped]:
    """Return one event of each kind that is displayed differently."""
    by = Client("broker-cy-cli", "10.0.0.9")
    every: list[Event] = [
        BrokerStarted("broker-cy 0.1.0", False, 250, 17, 4_096, {"orders-0": 4_096}),
        TopicCreated(ORDERS, "id", 3, 1, {}, by),
        ConfigChanged("TOPIC", ORDERS, [ConfigChange("retention.ms", None, "3600000")], by),
        TransactionTimedOut("pay-9", 9, 1, 60_000, 61_000, ["payments-3"], 1),
        Rebalance(
            "billing",
            5,
            "range",
            started_ms=NOW_MS,
            join_ms=2_900,
            sync_ms=12,
            total_ms=2_912,
            members_before=3,
            members_after=2,
            triggers=[Trigger("session_timeout", "worker-2-ffee", None, "worker-2", "10.0.0.3")],
            moves=[Move(ORDERS, 2, "worker-2-ffee", "worker-1-0a1b2c", 12_900)],
            moves_total=1,
            kept=2,
            stall_max_ms=12_900,
        ),
    ]
    return [Stamped(NOW_MS - 60_000 + n * 1_000, 1, event) for n, event in enumerate(every)]


class FrozenFeed(Feed[Any]):
    """A feed with one response, which never becomes stale."""

    def __init__(self, value: Any) -> None:
        async def never() -> Any:
            raise AssertionError("nothing is asked")

        super().__init__(never, 1.0)
        self.value = value
        self._callers: list[Callable[[], None]] = []

    @property
    def age_s(self) -> float | None:
        return 0.0

    def subscribe(self, listener: Callable[[], None]) -> None:
        listener()

    def unsubscribe(self, listener: Callable[[], None]) -> None:
        """Do nothing: no listener is kept."""


class FrozenFeeds(Feeds):
    """The feeds by key."""

    ANSWERS: dict[Hashable, Any] = {  # noqa: RUF012 - never changed
        "cluster": CLUSTER,
        "topics": TOPICS,
        "log_dirs": LOG_DIRS,
        "groups": GROUPS,
        "lags": LAGS,
        ("group", "billing"): GROUP,
        ("partitions", ORDERS): PARTITIONS,
        ("configs", ConfigResource(ResourceType.TOPIC, ORDERS)): CONFIGS,
        ("configs", ConfigResource(ResourceType.BROKER, "1")): CONFIGS,
        "transactions": TRANSACTIONS,
        "hanging": HANGING,
        ("producers", ORDERS): PRODUCERS,
        "quorum": QUORUM,
        "moves": MOVES,
        "sick": SICK,
        "features": FEATURES,
        "quotas": QUOTAS,
        "tokens": TOKENS,
        "mirrors": FLOWS,
        "streams": APPLICATIONS,
        ("streams", APPLICATION.name): view(),
    }

    def __init__(self, answers: Mapping[Hashable, Any] | None = None) -> None:
        super().__init__()
        self._frozen = {key: FrozenFeed(value) for key, value in (answers or self.ANSWERS).items()}

    def get(
        self, key: Hashable, fetch: Callable[[], Awaitable[Any]], interval_s: float, timeout_s: float = 0.0
    ) -> Feed[Any]:
        return self._frozen[key]


class FrozenSession(Session):
    """A cluster that never changes."""

    def __init__(self) -> None:
        super().__init__(entry_of("broker-1:9092"), client_id="test")
        self._feeds = FrozenFeeds()
        self.samples.items.extend(samples())
        self.events.items.extend(events())
        for at_ms, lags in ((NOW_MS - 10_000, (0, 1_000, 34)), (NOW_MS, (0, 1_200, 34))):
            parts = tuple(PartitionLag(TopicPartition(ORDERS, n), 1_000, 0, 1_000 + lag) for n, lag in enumerate(lags))
            self.lag_history.note([GroupLag("billing", parts)], at_ms)

    def start(self) -> None:
        """Do nothing: no topic is followed."""
