"""Brokers of one process replicate a partition over sockets (replicating.Cluster)."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from functools import partial

import pytest

from broker_cy.core.clock import MACHINE_CLOCK
from broker_cy.core.errors import ErrorCode
from broker_cy.handlers import list_offsets as _list_offsets  # noqa: F401 (registers it)
from broker_cy.metadata.image import ImageDelta
from broker_cy.replica.broker_status import BrokerStatus
from broker_cy.replica.partition import Partition
from broker_cy.replica.replica import Role
from broker_cy.replica.throttle import EVERY, UNLIMITED, ReplicaThrottle
from broker_cy.replication import fetcher
from broker_cy.replication.fetcher import FetcherId
from broker_cy.replication.fetcher_manager import ReplicaFetcherManager
from broker_cy.storage import log_deletion
from broker_cy.storage.checkpoints import RECOVERY_POINTS, read_entries
from broker_cy.storage.log_config import LogConfig
from broker_cy.storage.offset_checkpoints import Content
from broker_cy.wire import messages
from broker_cy.wire.frame import ApiKey
from broker_cy.wire.records import Record, encode_batch
from tests.broker_cy.connections.harness import RawClient, fetch_from, fetch_request, produce_request, produce_to
from tests.broker_cy.replication.replicating import CONFIG, TOPIC, Cluster, batch, produce
from tests.support.wait import until


@pytest.fixture(params=[LogConfig(), LogConfig(flush_messages=1, segment_bytes=400)], ids=["", "synced"])
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    cluster = Cluster(3, request.param)
    cluster.give()
    yield cluster
    cluster.close()


def test_acks_all_waits_for_followers_which_then_have_the_records(cluster: Cluster) -> None:
    """If this fails, an acknowledged record is on only one broker, or producers wait forever."""
    values = [b"value %d" % each for each in range(20)]
    for value in values:
        assert produce(cluster, 1, value) == ErrorCode.NONE
        held = [node.records()[-1:] == [value] for node in cluster.nodes.values()]
        assert all(held), "acknowledged, and not everywhere"
    for node in cluster.nodes.values():
        node.wait(lambda partition: partition.high_watermark == len(values))
        assert node.records() == values
    # A consumer may read from a follower, up to its high watermark (KIP-392).
    found = fetch_from(cluster.nodes[2].harness.client(), TOPIC, 0, 11)
    assert (found.error_code, found.high_watermark) == (ErrorCode.NONE, len(values))
    assert produce(cluster, 2, b"no") == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_debugging_consumer_asks_followers_for_offsets(cluster: Cluster) -> None:
    """If this fails, a tool cannot compare the replicas of a partition: replica id -2 stands for it, as in Kafka."""
    values = [b"value %d" % each for each in range(5)]
    for value in values:
        assert produce(cluster, 1, value) == ErrorCode.NONE
    latest, earliest, largest = -1, -2, -3
    for node in cluster.nodes.values():
        node.wait(lambda partition: partition.log.written_end_offset == len(values))
        client = node.harness.client()

        def ask(timestamp: int, replica_id: int, client: RawClient = client) -> tuple[int, int]:
            wanted = messages.ListOffsetsRequest.ListOffsetsPartition(partition_index=0, timestamp=timestamp)
            topic = messages.ListOffsetsRequest.ListOffsetsTopic(name=TOPIC, partitions=[wanted])
            request = messages.ListOffsetsRequest(replica_id=replica_id, topics=[topic])
            answer = client.call(request, ApiKey.LIST_OFFSETS, 7, messages.ListOffsetsResponse)
            (found,) = answer.topics[0].partitions
            return found.error_code, found.offset

        assert [ask(each, -2) for each in (latest, earliest, largest, 1_000)] == [(0, 5), (0, 0), (0, 0), (0, 0)]
        moved = (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)
        for replica_id in (-1, 2):
            assert ask(latest, replica_id) == ((0, 5) if node.node_id == 1 else moved)


def test_a_high_watermark_alone_answers_followers_only_where_consumers_read_from_them(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If this fails, followers fetch twice for each batch, or consumers of another zone wait for each record."""
    monkeypatch.setitem(CONFIG, "replica.fetch.wait.max.ms", 600_000)
    core = cluster.nodes[1].harness.core
    assert produce(cluster, 1, b"first") == ErrorCode.NONE
    before, count = core.requests, 20
    for each in range(count):
        assert produce(cluster, 1, b"%d" % each) == ErrorCode.NONE
    # For each batch one request of the producer and one of each follower; also requests in flight before or now.
    assert core.requests - before <= 3 * count + 4
    core.selects_replicas = True
    assert produce(cluster, 1, b"last") == ErrorCode.NONE
    for node in cluster.nodes.values():
        node.wait(lambda partition: partition.high_watermark == count + 2)


def test_who_is_far_behind_is_not_in_the_way_of_the_others(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, acks=all waits behind megabytes for a replica that catches up, or that replica never joins."""
    monkeypatch.setitem(CONFIG, "replica.fetch.max.bytes", 100)
    fetcher_ids: list[tuple[int, FetcherId]] = []
    right = ReplicaFetcherManager._fetch

    def fetch(self: ReplicaFetcherManager, partition: Partition, fetcher_id: FetcherId) -> None:
        fetcher_ids.append((self._follower.node_id, fetcher_id))
        right(self, partition, fetcher_id)

    monkeypatch.setattr(ReplicaFetcherManager, "_fetch", fetch)
    late = cluster.nodes[3]
    late.cut()
    cluster.give(isr=(1, 2))
    values = [b"%d" % each * 50 for each in range(20)]
    for value in values:
        assert produce(cluster, 1, value) == ErrorCode.NONE
    late.is_cut = False
    late.harness.wait_until(lambda: cluster.image.isr == (1, 2, 3))
    assert produce(cluster, 1, b"last") == ErrorCode.NONE
    late.wait(lambda partition: partition.high_watermark == len(values))
    assert late.records() == [*values, b"last"]
    far, near = FetcherId(1, is_far_behind=True), FetcherId(1, is_far_behind=False)
    late.harness.wait_until(lambda: set(late.replicas._fetchers) == {near})
    found = [fetcher_id for node_id, fetcher_id in fetcher_ids if node_id == 3]
    assert found.count(far) >= 1
    assert found[-1] == near
    # An in-sync replica stays with its fetcher, however much it has to fetch.
    assert (2, far) not in fetcher_ids


@pytest.mark.parametrize("replica_id", [3, -1], ids=["follower", "consumer"])
def test_a_second_fetch_of_a_follower_ends_the_wait_of_the_first(cluster: Cluster, replica_id: int) -> None:
    """If this fails, a partition whose leader this broker has become is fetched after replica.fetch.wait.max.ms, and
    acks=all waits for it as long; or a consumer that sends requests in advance gets empty answers.
    """
    cluster.nodes[3].cut()
    cluster.give(isr=(1, 2))
    core = cluster.nodes[1].harness.core
    client = cluster.nodes[1].harness.client()
    first = fetch_request(TOPIC, 0, 0, session_id=0, session_epoch=0, replica_id=replica_id)
    session_id = client.call(first, ApiKey.FETCH, 11, messages.FetchResponse).session_id
    for epoch in (1, 2):
        waits = messages.FetchRequest(
            max_bytes=1 << 20,
            min_bytes=1,
            session_id=session_id,
            session_epoch=epoch,
            max_wait_ms=600_000,
            replica_id=replica_id,
        )
        before = core.requests
        client.send(client.encode(waits, ApiKey.FETCH, 11))
        until(lambda before=before: core.requests > before, "the fetch")  # type: ignore[misc]
    if replica_id >= 0:
        _, answer = client.receive(ApiKey.FETCH, 11, messages.FetchResponse)
        assert (answer.error_code, answer.responses) == (ErrorCode.NONE, [])
    assert produce(cluster, 1, b"value", acks=1) == ErrorCode.NONE
    _, answer = client.receive(ApiKey.FETCH, 11, messages.FetchResponse)
    assert answer.responses[0].partitions[0].records
    client.close()


def test_who_has_everything_of_a_quiet_partition_stays_when_it_is_written_to(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If this fails, the first record after a quiet time makes the in-sync set smaller: leaders do not look at
    partitions without news with each fetch.
    """
    monkeypatch.setitem(CONFIG, "replica.fetch.wait.max.ms", 20)
    assert produce(cluster, 1, b"first") == ErrorCode.NONE
    leader = cluster.nodes[1]
    core, partition = leader.harness.core, leader.partition
    state = partition.replica.in_sync
    assert state is not None
    sessions = core.fetch_sessions.sessions

    def is_quiet(milliseconds: int) -> bool:
        now_ms = int(MACHINE_CLOCK.monotonic() * 1000)
        return all(now_ms - each.caught_up_ms > milliseconds for each in state.followers.values())

    leader.harness.wait_until(lambda: len(sessions) == 2 and is_quiet(2000))
    state.lag_max_ms = 1500

    def write() -> object:
        """Before a follower can ask again."""
        partition.append_records(batch(b"second"), 1_000)
        core.flush()
        core.before_ticks()
        partition.tick()
        return state.proposal

    assert leader.harness.on_loop(write) is None
    leader.wait(lambda partition: partition.high_watermark == 2)
    assert cluster.image.isr == (1, 2, 3)


def test_a_leader_hears_of_another_registration_for_quiet_partitions(cluster: Cluster) -> None:
    """If this fails, a proposal names an old broker epoch, and the controller refuses it (KIP-903)."""
    assert produce(cluster, 1, b"first") == ErrorCode.NONE
    state = cluster.nodes[1].partition.replica.in_sync
    assert state is not None
    cluster.nodes[1].wait(lambda partition: state.followers[2].broker_epoch == 102)
    cluster.broker_statuses[2] = BrokerStatus(205, True)
    cluster.nodes[1].wait(lambda partition: state.followers[2].broker_epoch == 205)


def test_a_deposed_leader_truncates_what_only_it_had(cluster: Cluster) -> None:
    """If this fails, replicas differ after a failover, and consumers read records that were never acknowledged."""
    assert produce(cluster, 1, b"shared") == ErrorCode.NONE
    cluster.nodes[1].cut()
    assert produce(cluster, 1, b"lost", acks=1) == ErrorCode.NONE
    cluster.give(leader=2, isr=(2, 3))
    # Not before: the followers would fetch the record that is to be lost.
    cluster.nodes[1].is_cut = False
    assert produce(cluster, 2, b"kept") == ErrorCode.NONE
    for node in cluster.nodes.values():
        node.wait(lambda partition: partition.high_watermark == 2)
        assert node.records() == [b"shared", b"kept"]
    cluster.nodes[2].wait(
        lambda partition: partition.replica.in_sync is not None and 1 in partition.replica.in_sync.isr
    )
    assert cluster.image.isr == (1, 2, 3)


def test_a_follower_appends_when_a_worker_has_checkpointed_its_truncation(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If this fails, each diverging partition blocks the event loop for three syncs: a broker with a thousand of
    them is fenced; or a power loss leaves records that no start checks.
    """
    deposed = cluster.nodes[1]
    checkpoints = deposed.logs.checkpoints
    may_write, threads, ends = threading.Event(), [], []
    right = checkpoints.write

    def write(wanted: Iterable[Content]) -> None:
        threads.append(threading.get_ident())
        assert may_write.wait(60)
        right(wanted)
        ends.append(deposed.log.log_end_offset)

    monkeypatch.setattr(checkpoints, "write", write)
    assert produce(cluster, 1, b"shared") == ErrorCode.NONE
    deposed.cut()
    assert produce(cluster, 1, b"lost", acks=1) == ErrorCode.NONE
    cluster.give(leader=2, isr=(2, 3))
    # Not before: the followers would fetch the record that is to be lost.
    deposed.is_cut = False
    assert produce(cluster, 2, b"kept") == ErrorCode.NONE
    deposed.wait(lambda partition: bool(threads))
    assert deposed.records() == [b"shared"]
    # It would lead, and append, with the next image.
    cluster.give(leader=1, isr=(1, 2, 3))
    assert produce(cluster, 1, b"too early") != ErrorCode.NONE
    assert deposed.harness.thread.ident not in threads
    may_write.set()
    deposed.wait(lambda partition: partition.replica.role == Role.LEADER)
    assert ends == [1]
    assert read_entries(f"{deposed.logs.directories[0]}/{RECOVERY_POINTS}").offsets[TOPIC, 0] <= 1


def test_replicas_join_after_an_unclean_election(cluster: Cluster) -> None:
    """If this fails, a partition whose leader was elected uncleanly stays on one replica, and its producers with
    acks=all wait forever.
    """
    assert produce(cluster, 1, b"first") == ErrorCode.NONE
    cluster.give(leader=2, isr=(2,), leader_recovery_state=1)
    until(lambda: set(cluster.image.isr) == {1, 2, 3}, "all replicas in sync")
    assert produce(cluster, 2, b"second") == ErrorCode.NONE


def test_a_follower_tries_at_once_when_its_leader_is_back(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, a broker that was started again has its followers back only after replica.fetch.backoff.ms."""
    monkeypatch.setattr(fetcher, "NEWS_S", 600.0)
    monkeypatch.setitem(CONFIG, "replica.fetch.backoff.ms", 600_000)
    late = cluster.nodes[3]
    late.cut()
    fetchers, keeping_up = late.replicas._fetchers, FetcherId(1, is_far_behind=False)
    until(lambda: keeping_up in fetchers and fetchers[keeping_up].failures > 0, "a connection that failed")
    cluster.give(isr=(1, 2))
    assert produce(cluster, 1, b"first") == ErrorCode.NONE
    late.is_cut = False
    registration = ImageDelta([], [], [1], [])
    late.harness.on_loop(lambda: late.replicas.apply(registration))
    late.wait(lambda partition: partition.high_watermark == 1)
    assert late.records() == [b"first"]


def test_a_follower_behind_the_log_start_begins_again(cluster: Cluster) -> None:
    """If this fails, a follower that was away while records were deleted never gets in sync."""
    cluster.nodes[3].cut()
    cluster.give(isr=(1, 2))
    for each in range(10):
        assert produce(cluster, 1, b"%d" % each) == ErrorCode.NONE

    def delete() -> None:
        log_deletion.delete_records_before(cluster.nodes[1].partition.log, 6, 0)

    cluster.nodes[1].harness.on_loop(delete)
    cluster.nodes[3].is_cut = False
    cluster.nodes[3].wait(lambda partition: partition.high_watermark == 10)
    assert cluster.nodes[3].records() == [b"6", b"7", b"8", b"9"]
    assert produce(cluster, 1, b"10") == ErrorCode.NONE
    cluster.nodes[2].wait(lambda partition: partition.log.log_start_offset == 6)


def test_a_follower_takes_the_batch_in_which_the_log_of_its_leader_begins(cluster: Cluster) -> None:
    """If this fails, a follower that was away while a part of a batch was deleted restarts its log again and again, and
    never gets in sync.
    """
    cluster.nodes[3].cut()
    cluster.give(isr=(1, 2))
    client = cluster.nodes[1].harness.client()
    whole = encode_batch([Record(offset, 1_000, b"k", b"%d" % offset, []) for offset in range(10)])
    answer = client.call(produce_request(TOPIC, 0, whole, -1), ApiKey.PRODUCE, 9, messages.ProduceResponse)
    assert answer.responses[0].partition_responses[0].error_code == ErrorCode.NONE
    cluster.nodes[1].harness.on_loop(
        lambda: log_deletion.delete_records_before(cluster.nodes[1].partition.log, 6, 0) and None
    )
    cluster.nodes[3].is_cut = False
    cluster.nodes[3].wait(lambda partition: partition.high_watermark == 10)
    until(lambda: cluster.image.isr == (1, 2, 3), "all replicas in sync")
    assert cluster.nodes[3].records()[-4:] == [b"6", b"7", b"8", b"9"]


def test_a_follower_catches_up_by_several_answers(cluster: Cluster) -> None:
    """If this fails, a follower that is more than one answer behind, which ends within a batch, never gets in sync."""
    cluster.nodes[3].cut()
    cluster.give(isr=(1, 2))
    state = cluster.nodes[1].partition.replica.in_sync
    assert state is not None
    state.lag_max_ms = 1  # else the high watermark waits for the late one, which has just been in sync
    values = [b"%d" % each * 400_000 for each in range(5)]
    for value in values:
        assert produce(cluster, 1, value) == ErrorCode.NONE
    cluster.nodes[3].is_cut = False
    cluster.nodes[3].wait(lambda partition: partition.high_watermark == 5)
    assert cluster.nodes[3].records() == values
    cluster.nodes[1].harness.wait_until(lambda: cluster.image.isr == (1, 2, 3))


def fill(throttle: ReplicaThrottle) -> None:
    """Hold all listed replicas: it has copied more than it may, for longer than a test takes."""
    throttle.limit_to(1)
    throttle.list_replicas(TOPIC, [EVERY], 0)
    throttle.record(1 << 30, int(MACHINE_CLOCK.monotonic() * 1000))


@pytest.mark.parametrize("side", ["leader", "follower"])
def test_a_throttle_holds_only_what_is_not_in_sync(cluster: Cluster, side: str) -> None:
    """If this fails, a move takes the whole network, or a throttle makes in-sync sets smaller (KIP-73)."""
    leader, in_sync, late = cluster.nodes.values()
    late.cut()
    cluster.give(isr=(1, 2))
    core, state = leader.harness.core, leader.partition.replica.in_sync
    assert core.leader_throttle is not None
    assert state is not None
    state.lag_max_ms = 1  # else the high watermark waits for the late one, which has just been in sync
    throttles = [core.leader_throttle] if side == "leader" else [in_sync.throttle, late.throttle]
    for throttle in throttles:
        leader.harness.on_loop(partial(fill, throttle))
    assert produce(cluster, 1, b"1") == ErrorCode.NONE
    late.is_cut = False
    if side == "leader":
        leader.wait(lambda partition: state.followers[3].end_offset == 0)
    else:
        fetcher_id = FetcherId(1, is_far_behind=False)
        late.harness.wait_until(lambda: late.replicas._fetchers[fetcher_id]._session.held_ms(0) is not None)
    for each in range(10):
        assert produce(cluster, 1, b"%d" % each) == ErrorCode.NONE
    assert len(in_sync.records()) == 11
    assert late.records() == []
    for throttle in throttles:
        leader.harness.on_loop(partial(throttle.limit_to, UNLIMITED))
    late.wait(lambda partition: partition.high_watermark == 11)
    leader.harness.wait_until(lambda: cluster.image.isr == (1, 2, 3))


def test_a_consumer_is_sent_to_the_replica_in_its_rack(cluster: Cluster) -> None:
    """If this fails, consumers of another zone read over the expensive link (KIP-392), or are sent in circles."""
    for each, rack in ((1, "a"), (2, "b"), (3, "c")):
        cluster.broker_statuses[each] = BrokerStatus(100 + each, True, rack)
        cluster.nodes[each].harness.core.selects_replicas = True
    assert produce(cluster, 1, b"1") == ErrorCode.NONE

    def preferred(node_id: int, rack: str) -> tuple[int, int]:
        client = cluster.nodes[node_id].harness.client()
        found = fetch_from(client, TOPIC, 0, 11, rack_id=rack)
        client.close()
        return found.preferred_read_replica, len(found.records or b"")

    assert preferred(1, "b") == (2, 0)
    assert preferred(1, "a")[0] == preferred(1, "z")[0] == -1
    cluster.nodes[2].wait(lambda partition: partition.high_watermark == 1)
    replica, size = preferred(2, "b")
    assert replica == -1
    assert size > 0


def test_too_few_in_sync_replicas(cluster: Cluster) -> None:
    """If this fails, a record that one broker has counts as replicated."""
    client = cluster.nodes[1].harness.client()
    for each in (2, 3):
        cluster.nodes[each].cut()
    client.send(client.encode(produce_request(TOPIC, 0, batch(b"waits")), ApiKey.PRODUCE, 9))
    cluster.nodes[1].wait(lambda partition: partition.log.log_end_offset == 1)
    cluster.give(isr=(1,))
    assert produce(cluster, 1, b"refused") == ErrorCode.NOT_ENOUGH_REPLICAS
    assert produce_to(cluster.nodes[1].harness.client(), TOPIC, batch(b"refused")).error_code == 19
    cluster.give(leader=2, isr=(2,))
    _, response = client.receive(ApiKey.PRODUCE, 9, messages.ProduceResponse)
    assert response.responses[0].partition_responses[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
