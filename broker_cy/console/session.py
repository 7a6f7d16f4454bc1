"""A session: the client of one cluster, its feeds and its history, for any number of viewers."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from broker_cy.admin import AdminClient
from broker_cy.admin.caller import Outcome
from broker_cy.admin.cluster import ClusterDescription, FeatureRange
from broker_cy.admin.commit_notes import NotedTimestamps
from broker_cy.admin.configs import ConfigEntry, ConfigResource
from broker_cy.admin.group_lag import GroupLag, RecordTimestamps
from broker_cy.admin.group_values import SHARE, WITHOUT_MEMBERS, GroupListing
from broker_cy.admin.lag_history import LagHistory
from broker_cy.admin.log_dirs import LogDir
from broker_cy.admin.metadata import TopicInfo, TopicPartition
from broker_cy.admin.partition_health import PartitionHealth
from broker_cy.admin.quorum import QuorumDescription
from broker_cy.admin.quotas import QuotaEntry
from broker_cy.admin.scram_users import ScramCredential
from broker_cy.admin.share_in_flight import GroupInFlight, in_flight_of
from broker_cy.admin.tokens import DelegationToken
from broker_cy.admin.transactions import HangingTransaction, ProducerState
from broker_cy.client.clusters import ClusterEntry
from broker_cy.client.decoded import Decoder
from broker_cy.client.turns import Turns
from broker_cy.console.described import described_now
from broker_cy.console.feed_values import GroupSummary, GroupView, OpenTransaction, PartitionRow
from broker_cy.console.feeds import Feed, Feeds
from broker_cy.console.figures import TopicCounts, counts_of
from broker_cy.console.history import Events, Samples
from broker_cy.console.listeners import LoopOwner
from broker_cy.console.moving import Moving, moving_now
from broker_cy.console.partition_rows import partition_rows
from broker_cy.console.transactions import hanging_transactions, open_transactions, producers_of
from broker_cy.security.acls import Binding
from broker_registry.serdes.tools import console_decoder_of

if TYPE_CHECKING:
    from broker_cy.admin.streams_applications import StreamsApplication
    from broker_cy.console.mirror_reading import MirrorReader
    from broker_cy.console.mirrors import MirrorFlows
    from broker_cy.console.streams import ApplicationView, StreamsReader

# The limit of topics with partitions out of sync whose remedies are requested; beyond it, only the first ones.
SICK_TOPICS_MAX = 1_000
# They are found in an answer of this age at most: that of the feed of topics.
TOPICS_AGE_S = 5.0
MOVES_RATE_MS = 15_000
# The age up to which a list of groups decides the type of a group: one may be deleted, and its name taken by another.
TYPES_AGE_S = 60.0
# Groups whose lag one request asks for.
LAG_GROUPS_A_CALL = 50


def now_ms() -> int:
    """Return the wall clock time."""
    return int(time.time() * 1000)


def _lag_by_topic(lag: GroupLag) -> dict[str, int]:
    sums: dict[str, int] = {}
    for part in lag.partitions:
        topic = part.partition.topic
        sums[topic] = sums.get(topic, 0) + (part.lag or 0)
    return sums


def _reported_time(stamps: Sequence[int | None], at_ms: int) -> tuple[int | None, bool]:
    """Return the longest time lag of partitions, by the timestamps of the records that are read next, and whether it
    is that of all: see GroupSummary.
    """
    known = [stamp for stamp in stamps if stamp is not None]
    if not stamps:
        return 0, True
    return (max(0, at_ms - min(known)) if known else None), len(known) == len(stamps)


class Session:
    """All requests to one cluster. A feed is created when it is first used.

    A session belongs to the event loop that starts it; `client_id` identifies it to the brokers and in their events.
    """

    def __init__(self, entry: ClusterEntry, *, client_id: str, timeout_s: float | None = None) -> None:
        self.entry = entry
        self._owner = LoopOwner()
        # The stores of keys are read for it.
        self._tls = entry.tls
        self.client = AdminClient(
            entry.bootstrap,
            timeout_s=timeout_s or entry.timeout_s,
            client_id=client_id,
            login=entry.login,
            tls=self._tls,
        )
        # None if the cluster has no schema registry.
        self.decoder: Decoder | None = console_decoder_of(entry)
        # A user waits for these, so an unreachable broker is reported soon.
        self._quick = self.client.with_timeout(min(8.0, timeout_s or entry.timeout_s))
        self._feeds = Feeds(self._owner)
        self.samples = Samples(self.client, self._owner)
        self.events = Events(self.client, self._owner)
        self.lag_history = LagHistory()
        # The answer from which the sizes of topics were computed, and the sizes.
        self._sizes_of: Outcome[int, tuple[LogDir, ...]] | None = None
        self._sizes: Mapping[str, int] = {}
        # The groups of each topic, from the newest lags of all groups.
        self._readers: Mapping[str, Mapping[str, int]] | None = None
        # The type of each group, from the newest list of all groups, and when that came.
        self._types: Mapping[str, str] = {}
        self._types_at_s = 0.0
        # The answers of `moves` over which the rate is computed, and when they came.
        self._moved: deque[tuple[int, Moving]] = deque()
        # As the sizes, for the counts of topics and partitions.
        self._counts_of: tuple[TopicInfo, ...] | None = None
        self._counts: TopicCounts | None = None
        self._mirrors: MirrorReader | None = None
        self._streams: StreamsReader | None = None

    def start(self) -> None:
        self.samples.start()
        self.events.start()

    async def close(self) -> None:
        await asyncio.gather(self.samples.close(), self.events.close())
        await self.client.close()

    def refresh(self) -> None:
        """Refresh every feed that has subscribers."""
        self._feeds.kick_all()
        if self._mirrors is not None:
            self._mirrors.forget()
        self.samples.kick()
        self.events.kick()

    def cluster(self) -> Feed[ClusterDescription]:
        """With the active controller."""
        return self._feeds.get("cluster", lambda: described_now(self._quick), 5.0)

    def topics(self) -> Feed[tuple[TopicInfo, ...]]:
        return self._feeds.get("topics", self._quick.topics.list_all, TOPICS_AGE_S)

    def log_dirs(self) -> Feed[Outcome[int, tuple[LogDir, ...]]]:
        return self._feeds.get("log_dirs", self._quick.log_dirs.describe, 10.0)

    def topic_sizes(self) -> Mapping[str, int] | None:
        """Return the bytes of each topic over all replicas, from the newest answer of `log_dirs`; None before the
        first.
        """
        outcome = self.log_dirs().value
        if outcome is not self._sizes_of:
            sizes: dict[str, int] = {}
            for directories in () if outcome is None else outcome.found.values():
                for directory in directories:
                    for replica in directory.replicas:
                        sizes[replica.topic] = sizes.get(replica.topic, 0) + replica.size_bytes
            self._sizes_of, self._sizes = outcome, sizes
        return None if outcome is None else self._sizes

    def topic_groups(self) -> Mapping[str, Mapping[str, int]] | None:
        """Return, for each topic, the groups that have committed offsets in it with their lag there, from the newest
        answer of `group_lags`; None before the first one.
        """
        return self._readers

    def topic_counts(self) -> TopicCounts | None:
        """The counts of the newest answer of `topics`; None before the first one."""
        topics = self.topics().value
        if topics is not self._counts_of:
            self._counts_of, self._counts = topics, None if topics is None else counts_of(topics)
        return self._counts

    def groups(self) -> Feed[tuple[GroupListing, ...]]:
        return self._feeds.get("groups", self._listed, 5.0)

    def group_lags(self) -> Feed[dict[str, GroupSummary]]:
        return self._feeds.get("lags", self._all_lags, 5.0, 30.0)

    def group(self, group_id: str) -> Feed[GroupView]:
        return self._feeds.get(("group", group_id), lambda: self._group(group_id), 2.0)

    def group_type(self, group_id: str) -> str:
        """Return the type of a group by its last description, else by a list that is at most TYPES_AGE_S old; empty if
        neither has it. Sends no request.
        """
        view = self.group(group_id).value
        if view is not None:
            return view.description.group_type
        is_new = bool(self._types) and asyncio.get_running_loop().time() - self._types_at_s <= TYPES_AGE_S
        return self._types.get(group_id, "") if is_new else ""

    def partitions(self, topic: str) -> Feed[tuple[PartitionRow, ...]]:
        return self._feeds.get(("partitions", topic), lambda: self._partitions(topic), 3.0)

    def configs(self, resource: ConfigResource) -> Feed[tuple[ConfigEntry, ...]]:
        async def fetch() -> tuple[ConfigEntry, ...]:
            return (await self._quick.configs.describe([resource], documentation=True)).whole()[resource]

        return self._feeds.get(("configs", resource), fetch, 10.0)

    def transactions(self) -> Feed[tuple[OpenTransaction, ...]]:
        return self._feeds.get("transactions", lambda: open_transactions(self._quick, now_ms), 3.0)

    def hanging(self) -> Feed[tuple[HangingTransaction, ...]]:
        return self._feeds.get("hanging", lambda: hanging_transactions(self._quick, now_ms), 15.0, 30.0)

    def acls(self) -> Feed[list[Binding]]:
        return self._feeds.get("acls", self._quick.acls.describe, 5.0)

    def scram_users(self) -> Feed[tuple[ScramCredential, ...]]:
        return self._feeds.get("scram users", self._scram_users, 5.0)

    def quotas(self) -> Feed[list[QuotaEntry]]:
        return self._feeds.get("quotas", lambda: self._quick.quotas.describe({}), 5.0)

    def tokens(self) -> Feed[tuple[DelegationToken, ...]]:
        """Delegation tokens, without their secrets, which no feed keeps."""
        return self._feeds.get("tokens", self._tokens, 5.0)

    def quorum(self) -> Feed[QuorumDescription]:
        return self._feeds.get("quorum", self._quick.quorum.describe, 5.0)

    def moves(self) -> Feed[Moving]:
        """Replicas that are being moved, with their rate over the last MOVES_RATE_MS. Under a throttle they copy in
        steps, sometimes seconds apart.
        """
        return self._feeds.get("moves", self._moves, 2.0)

    def sick(self) -> Feed[tuple[PartitionHealth, ...]]:
        """Partitions without a leader, or with replicas out of sync: the remedy and the possible leaders of each; at
        most SICK_TOPICS_MAX topics.
        """
        return self._feeds.get("sick", self._sick, 5.0)

    def features(self) -> Feed[tuple[FeatureRange, ...]]:
        return self._feeds.get("features", self._quick.cluster.features, 30.0)

    def producers(self, topic: str) -> Feed[tuple[tuple[TopicPartition, ProducerState], ...]]:
        return self._feeds.get(("producers", topic), lambda: producers_of(self._quick, topic), 5.0)

    def mirrors(self) -> Feed[MirrorFlows]:
        """The flows of mirrors into the cluster."""
        return self._feeds.get("mirrors", self._read_mirrors, 5.0, 30.0)

    async def mirrors_now(self) -> MirrorFlows:
        """Return the flows as they are now. Raises ClientError."""
        if self._mirrors is not None:
            self._mirrors.forget()
        return await self.mirrors().fresh(0.0)

    async def _read_mirrors(self) -> MirrorFlows:
        if self._mirrors is None:
            # Imported here, because few sessions need it.
            from broker_cy.console.mirror_reading import MirrorReader

            self._mirrors = MirrorReader(
                self.entry,
                self._quick,
                self._tls,
                lambda: self.topics().fresh(TOPICS_AGE_S),
                lambda: self.groups().fresh(TOPICS_AGE_S),
            )
        return await self._mirrors.read()

    def streams(self) -> Feed[tuple[StreamsApplication, ...]]:
        """The stream processing applications of the cluster."""
        return self._feeds.get("streams", lambda: self._streams_reader().all(), 5.0, 30.0)

    def streams_application(self, name: str) -> Feed[ApplicationView]:
        return self._feeds.get(("streams", name), lambda: self._streams_reader().one(name), 2.0, 30.0)

    def _streams_reader(self) -> StreamsReader:
        if self._streams is None:
            # Imported here, because few sessions need it.
            from broker_cy.console.streams import StreamsReader

            self._streams = StreamsReader(self._quick)
        return self._streams

    async def _partitions(self, topic: str) -> tuple[PartitionRow, ...]:
        return await partition_rows(self._quick, topic, self.entry.metrics_token_file, self._tls)

    async def _scram_users(self) -> tuple[ScramCredential, ...]:
        users = (await self._quick.scram_users.describe()).whole()
        return tuple(each for credentials in users.values() for each in credentials)

    async def _tokens(self) -> tuple[DelegationToken, ...]:
        return tuple(token for token, _ in (await self._quick.tokens.describe()).values())

    async def _sick(self) -> tuple[PartitionHealth, ...]:
        topics = [
            topic
            for topic in await self.topics().fresh(TOPICS_AGE_S)
            if any(part.is_offline or part.is_under_replicated for part in topic.partitions)
        ]
        found = await self._quick.partition_health.of(topics[:SICK_TOPICS_MAX])
        return tuple(each for each in found if not each.is_healthy)

    async def _moves(self) -> Moving:
        now, at_ms = await moving_now(self._quick), now_ms()
        while len(self._moved) > 1 and at_ms - self._moved[0][0] > MOVES_RATE_MS:
            self._moved.popleft()
        if not now.partitions:
            self._moved.clear()
        elif self._moved and at_ms > self._moved[0][0]:
            began_ms, before = self._moved[0]
            now = now.with_rate_since(before, (at_ms - began_ms) / 1000)
        if now.partitions:
            self._moved.append((at_ms, now))
        return now

    async def _listed(self) -> tuple[GroupListing, ...]:
        listed = await self._quick.groups.listed()
        self._types = {group.group_id: group.group_type for group in listed}
        self._types_at_s = asyncio.get_running_loop().time()
        return listed

    async def _all_lags(self) -> dict[str, GroupSummary]:
        listed = await self._listed()
        ids = [group.group_id for group in listed]
        members = {group.group_id: group.state not in WITHOUT_MEMBERS for group in listed if group.state}
        found: dict[str, GroupSummary] = {}
        readers: dict[str, dict[str, int]] = {}
        at_ms = now_ms()
        turns = Turns()
        for start in range(0, len(ids), LAG_GROUPS_A_CALL):
            lags = (await self._quick.lag.of(ids[start : start + LAG_GROUPS_A_CALL])).found
            for group_id, lag in lags.items():
                self._note(lag, at_ms, members)
                status, trend = await self.lag_history.judged(group_id)
                stamps = [self.events.commits.record_time_ms(group_id, part) for part in lag.partitions if part.lag]
                found[group_id] = GroupSummary(
                    lag.least,
                    len(lag.partitions),
                    lag.is_complete,
                    status,
                    trend,
                    *_reported_time(stamps, at_ms),
                )
                for topic, unread in _lag_by_topic(lag).items():
                    readers.setdefault(topic, {})[group_id] = unread
                await turns.pause()
        self.lag_history.keep(found)
        self._readers = readers
        return found

    async def summary_of(self, group_id: str, wanted: Callable[[TopicPartition], bool]) -> GroupSummary:
        """Return the summary of some partitions of a group, from the last sample of each; no request is sent."""
        status, trend = await self.lag_history.judged(group_id, wanted)
        last = {key: sample for key, sample in self.lag_history.last(group_id).items() if wanted(key)}
        whole = (self.group_lags().value or {}).get(group_id)
        stamps = [
            self.events.commits.sampled_time_ms(group_id, key, sample.committed)
            for key, sample in last.items()
            if sample.lag
        ]
        return GroupSummary(
            sum(sample.lag for sample in last.values()),
            len(last),
            whole is None or whole.is_complete,
            status,
            trend,
            *_reported_time(stamps, max((sample.at_ms for sample in last.values()), default=0)),
        )

    def _note(self, lag: GroupLag, at_ms: int, members: Mapping[str, bool]) -> None:
        self.lag_history.note([self.events.commits.with_commit_times(lag)], at_ms, members)

    async def _group(self, group_id: str) -> GroupView:
        described, lags = await asyncio.gather(self._quick.groups.describe([group_id]), self._quick.lag.of([group_id]))
        description = described.whole()[group_id]
        lag = lags.whole()[group_id]
        at_ms = now_ms()
        self._note(lag, at_ms, {group_id: bool(description.members)})
        notes = self.events.commits
        timestamps = NotedTimestamps(notes, RecordTimestamps(self._quick.records))
        times = (await self._quick.lag.using(timestamps).times(lag, at_ms)).found
        return GroupView(
            description,
            notes.with_commit_times(lag),
            times,
            notes.exact(lag),
            self.lag_history.status(group_id),
            self.lag_history.trend(group_id),
            at_ms,
            await self._in_flight(group_id) if description.group_type == SHARE else None,
        )

    async def _in_flight(self, group_id: str) -> GroupInFlight | None:
        found = await in_flight_of(self._quick.caller, group_id, self.entry.metrics_token_file, self._tls)
        return found if found.brokers else None
