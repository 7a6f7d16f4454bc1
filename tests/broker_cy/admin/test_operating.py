"""The calls that operate a cluster, and the mover, against a cluster in memory: requests, and the effect of each error.

tests/broker_cy/commands/test_operating_kafka.py does the same with three real nodes of Apache Kafka.
"""

from __future__ import annotations

import asyncio
from uuid import UUID

import pytest

from broker_cy.admin import AdminClient, ClientError, Failure
from broker_cy.admin.metadata import TopicPartition
from broker_cy.admin.move_progress import MoveProgress
from broker_cy.admin.move_run import MISSING_MAX
from broker_cy.admin.placement import Move
from broker_cy.admin.quorum import QuorumEndpoint
from broker_cy.admin.reassignments import Elected, ElectionType
from broker_cy.core.errors import ErrorCode
from broker_cy.core.uuid import to_text
from broker_cy.wire import messages
from broker_cy.wire.api_keys import ApiKey
from tests.support.fake_cluster import BROKER, TOPIC, FakeCluster, Part

RATES = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")


def key(number: int) -> TopicPartition:
    return TopicPartition("t", number)


@pytest.fixture
def cluster() -> FakeCluster:
    """Three brokers, and six partitions of 30 bytes on the first two."""
    found = FakeCluster({1: "a", 2: "b", 3: "c"})
    found.parts = {key(n): Part((1, 2) if n % 2 else (2, 1), 30) for n in range(6)}
    return found


MOVES = tuple(Move(key(n), (1, 2) if n % 2 else (2, 1), (1, 3) if n % 2 else (3, 1), 30) for n in range(6))


def test_a_quorum_is_changed_by_id_and_directory(cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, a node with a new disk is mistaken for the former node with its id, and the quorum loses a
    vote.
    """
    cluster.observers = [(4, UUID(int=104))]

    async def job(client: AdminClient) -> None:
        before = await client.quorum.describe()
        assert [(each.replica_id, each.directory_id, each.lag) for each in before.observers] == [
            (4, to_text(UUID(int=104)), 7)
        ]
        assert before.voters[0].endpoints == (QuorumEndpoint("CONTROLLER", "127.0.0.1", 19),)
        assert str(before.voters[0].endpoints[0]) == "CONTROLLER://127.0.0.1:19"
        endpoint = QuorumEndpoint("CONTROLLER", "127.0.0.1", 20)
        await client.quorum.add_voter(4, UUID(int=104), [endpoint])
        (sent,) = cluster.kinds(messages.AddRaftVoterRequest)
        assert (sent.cluster_id, sent.voter_id, sent.ack_when_committed) == ("cluster", 4, True)
        assert [(each.name, each.host, each.port) for each in sent.listeners] == [("CONTROLLER", "127.0.0.1", 20)]
        with pytest.raises(ClientError, match="voter 4: DUPLICATE_VOTER: a voter already"):
            await client.quorum.add_voter(4, UUID(int=104), [endpoint])
        with pytest.raises(ClientError, match="VOTER_NOT_FOUND"):
            await client.quorum.remove_voter(4, UUID(int=9))
        await client.quorum.remove_voter(4, UUID(int=104))
        assert [each.replica_id for each in (await client.quorum.describe()).voters] == [1]

    cluster.run(monkeypatch, job)


def test_reassignments_are_listed_started_and_cancelled_by_partition(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If this fails, one wrong partition of a plan hides the results of the others."""

    async def job(client: AdminClient) -> None:
        outcome = await client.reassignments.alter({key(0): (3, 1), key(1): (1, 9), TopicPartition("no", 0): (1,)})
        assert outcome.found == {key(0): True}
        assert {each: error.code for each, error in outcome.failed.items()} == {
            key(1): ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            TopicPartition("no", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        }
        assert not cluster.kinds(messages.AlterPartitionReassignmentsRequest)[0].allow_replication_factor_change
        (moving,) = await client.reassignments.list_all()
        assert (moving.partition, moving.adding, moving.removing) == (key(0), (3,), (2,))
        assert (moving.replicas, moving.before, moving.after) == ((3, 1, 2), (1, 2), (3, 1))
        cancelled = await client.reassignments.alter({key(0): None, key(1): None})
        assert (cancelled.found, cancelled.failed[key(1)].code) == (
            {key(0): True},
            ErrorCode.NO_REASSIGNMENT_IN_PROGRESS,
        )
        assert await client.reassignments.list_all() == ()

    cluster.run(monkeypatch, job)


def test_elections_say_what_they_did(cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, a leader that was right already is reported as a failure, or a missing replica is waited for."""
    cluster.parts[key(1)] = Part((1, 2), 30, leader=2)
    cluster.parts[key(2)] = Part((2, 1), 30, leader=1, isr=(1,))

    async def job(client: AdminClient) -> None:
        outcome = await client.reassignments.elect(ElectionType.PREFERRED, [key(0), key(1), key(2)])
        assert outcome.found == {key(0): Elected.NOT_NEEDED, key(1): Elected.NEW_LEADER}
        assert outcome.failed[key(2)].code is ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
        assert len(cluster.kinds(messages.ElectLeadersRequest)) == 1
        await client.reassignments.elect(ElectionType.UNCLEAN, [key(2)])
        assert cluster.kinds(messages.ElectLeadersRequest)[1].election_type == 1
        assert cluster.parts[key(2)].leader == 2

    cluster.run(monkeypatch, job)


def test_brokers_are_described_with_what_they_hold(cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, a broker that is fenced, cordoned, or only listed as a replica is missing, or gets replicas."""
    cluster.racks[4] = "a"
    cluster.fenced = {4}
    cluster.configs[BROKER, "3"] = {"cordoned.log.dirs": "*"}
    cluster.parts[key(6)] = Part((9, 1), 5, leader=1, isr=(1,))

    async def job(client: AdminClient) -> None:
        found = await client.brokers.replicas()
        shown = {
            each.broker_id: (each.replicas, each.leaders, each.preferred, each.out_of_sync) for each in found.brokers
        }
        assert shown == {1: (7, 4, 3, 0), 2: (6, 3, 3, 0), 3: (0, 0, 0, 0), 4: (0, 0, 0, 0), 9: (1, 0, 1, 1)}
        assert [(each.broker_id, each.accepts) for each in found.slots()] == [
            (1, True), (2, True), (3, False), (4, False),
        ]  # fmt: skip
        assert found.broker(1).size_bytes == 185
        assert found.broker(4).size_bytes is None
        assert found.broker(9).info is None
        assert found.partitions[key(6)].size_bytes == 5
        assert await client.brokers.cordoned_dirs(3) == "*"
        await client.brokers.uncordon(3)
        assert await client.brokers.cordoned_dirs(3) == ""
        await client.brokers.unregister(4)
        with pytest.raises(ClientError, match="broker 4: BROKER_ID_NOT_REGISTERED"):
            await client.brokers.unregister(4)

    cluster.run(monkeypatch, job)


def test_health_names_what_each_partition_lacks(cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, an operator does not see that writes are refused, or which replica may lead without loss."""
    cluster.min_isr = 2
    cluster.parts[key(3)] = Part((1, 2), 30, isr=(1,))
    cluster.parts[TopicPartition("u", 0)] = Part((2, 1))
    # It has all the replicas that it can have: nothing is refused.
    cluster.parts[TopicPartition("u", 1)] = Part((2,))

    async def job(client: AdminClient) -> None:
        found = await client.partition_health.of(await client.topics.list_all())
        assert len(found) == 8
        (sick,) = [each for each in found if not each.is_healthy]
        assert (sick.partition, sick.missing, sick.min_in_sync, sick.needed) == (key(3), (2,), 2, 2)
        assert (sick.is_offline, sick.is_under_replicated, sick.is_below_min_isr) == (False, True, True)
        assert sick.eligible is not None
        assert sick.eligible.eligible == (2,)
        # Three pages of two partitions, only of the topic that needs them.
        asked = cluster.kinds(messages.DescribeTopicPartitionsRequest)
        assert [[topic.name for topic in each.topics] for each in asked] == [["t"]] * 3

    cluster.run(monkeypatch, job)


def test_everything_moves_a_few_at_a_time_and_the_throttle_ends(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If this fails, a drain floods the network, or leaves a throttle that slows replication down for months."""
    cluster.configs[BROKER, "1"] = {RATES[0]: "777"}
    cluster.configs[TOPIC, "t"] = {"leader.replication.throttled.replicas": "9:9"}
    seen: list[MoveProgress] = []
    rates: list[dict[str, str]] = []

    def look(progress: MoveProgress) -> None:
        seen.append(progress)
        rates.append(dict(cluster.configs.get((BROKER, "3"), {})))
        if not progress.is_over:
            listed = cluster.configs[TOPIC, "t"]
            assert listed["leader.replication.throttled.replicas"].startswith("9:9,0:2,0:1,1:1,1:2")
            assert listed["follower.replication.throttled.replicas"] == "0:3,1:3,2:3,3:3,4:3,5:3"

    async def job(client: AdminClient) -> None:
        run = client.mover.of(MOVES, concurrent=2, throttle_bytes_per_s=500, every_s=0.01)
        await run.run(look)
        assert {move.partition for move in run.done} == set(cluster.parts)
        assert (run.failed, run.untouched, run.left_behind) == ({}, (), [])

    cluster.run(monkeypatch, job)
    assert {each: part.replicas for each, part in cluster.parts.items()} == {m.partition: m.after for m in MOVES}
    assert cluster.moving_most == 2
    assert all(set(each.values()) == {"500"} for each in rates[:-1])
    assert cluster.configs[BROKER, "1"] == {RATES[0]: "777"}
    assert cluster.configs[BROKER, "3"] == {}
    assert cluster.configs[TOPIC, "t"] == {"leader.replication.throttled.replicas": "9:9"}
    assert [each.copied_bytes for each in seen] == sorted(each.copied_bytes for each in seen)
    assert (seen[0].copied_bytes, seen[-1].copied_bytes, seen[-1].total_bytes) == (0, 180, 180)
    assert any(each.rate_bytes_per_s and each.left_s for each in seen)


def test_what_is_stopped_is_as_it_was_before(cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, Ctrl-C leaves half-moved partitions, another preferred leader, or a throttle behind."""

    async def job(client: AdminClient) -> None:
        run = client.mover.of(MOVES, concurrent=2, throttle_bytes_per_s=500, every_s=0.01)
        task: asyncio.Task[None] | None = None

        def stop(progress: MoveProgress) -> None:
            assert task is not None
            if progress.done == 2 and len(progress.under_way) == 2:
                task.cancel()

        task = asyncio.ensure_future(run.run(stop))
        with pytest.raises(asyncio.CancelledError):
            await task
        assert len(run.done) == 2
        assert len(run.untouched) == 4
        assert run.left_behind == []

    cluster.run(monkeypatch, job)
    done = {move.partition: move.after for move in MOVES[:2]}
    before = {move.partition: move.before for move in MOVES}
    assert {each: part.replicas for each, part in cluster.parts.items()} == {**before, **done}
    assert all(part.target is None for part in cluster.parts.values())
    assert not any(cluster.configs.values())


def test_a_second_interrupt_does_not_stop_the_clean_up(cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, an impatient user who interrupts twice leaves the throttle behind."""

    async def job(client: AdminClient) -> None:
        run = client.mover.of(MOVES, concurrent=2, throttle_bytes_per_s=500, every_s=0.01)
        task: asyncio.Task[None] | None = None

        def again() -> None:
            assert task is not None
            asyncio.get_running_loop().call_soon(task.cancel)

        def stop(progress: MoveProgress) -> None:
            assert task is not None
            if progress.done == 2 and len(progress.under_way) == 2:
                # Now, and again at each request of the clean-up.
                task.cancel()
                cluster.before_request = again

        task = asyncio.ensure_future(run.run(stop))
        with pytest.raises(asyncio.CancelledError):
            await task
        # When the command ends, not some time later.
        assert all(part.target is None for part in cluster.parts.values())
        assert not any(cluster.configs.values())

    cluster.run(monkeypatch, job)


def test_a_move_that_somebody_cancels_is_reported(cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, a plan waits forever for a move that is not there, or reports it as done."""
    looks = 0

    def interfere(progress: MoveProgress) -> None:
        nonlocal looks
        looks += 1
        if looks == 2:
            cluster._move(key(0), None)

    async def job(client: AdminClient) -> None:
        run = client.mover.of(MOVES[:2], every_s=0.01)
        await run.run(interfere)
        assert [move.partition for move in run.done] == [key(1)]
        assert "another client cancelled or replaced the reassignment; the replicas are 1,2" in str(run.failed[key(0)])

    cluster.run(monkeypatch, job)
    assert looks > MISSING_MAX


def test_nothing_moves_after_somebody_cancels(cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, an operator cancels the reassignments of a drain, which removes its throttle, and the drain
    continues with the others at full speed.
    """
    looks = 0

    def cancel_all(progress: MoveProgress) -> None:
        nonlocal looks
        looks += 1
        if looks == 2:
            for each in progress.under_way:
                cluster._move(each, None)
            cluster.configs.clear()

    async def job(client: AdminClient) -> None:
        run = client.mover.of(MOVES, concurrent=2, throttle_bytes_per_s=500, every_s=0.01)
        with pytest.raises(ClientError, match="another client cancelled the reassignment of t-0, which ends the plan"):
            await run.run(cancel_all)
        assert (run.done, len(run.failed), len(run.untouched)) == ([], 2, 4)
        moved = [each for sent in cluster.kinds(messages.AlterPartitionReassignmentsRequest) for each in sent.topics]
        assert sum(len(each.partitions) for each in moved) == 2

    cluster.step_bytes = 1
    cluster.run(monkeypatch, job)
    assert all(part.target is None for part in cluster.parts.values())


def test_what_is_refused_does_not_stop_the_rest(cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, a topic that is deleted during a drain stops the drain of all other topics."""
    del cluster.parts[key(0)]

    async def job(client: AdminClient) -> None:
        run = client.mover.of(MOVES[:3], every_s=0.01)
        await run.run(lambda progress: None)
        assert [move.partition for move in run.done] == [key(1), key(2)]
        assert run.failed[key(0)].code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    cluster.run(monkeypatch, job)


def test_nothing_moves_without_the_throttle_that_was_asked_for(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If this fails, an operator who may not change settings starts unthrottled copies in spite of --throttle."""
    cluster.refuse[ApiKey.INCREMENTAL_ALTER_CONFIGS] = ErrorCode.CLUSTER_AUTHORIZATION_FAILED

    async def job(client: AdminClient) -> None:
        run = client.mover.of(MOVES, throttle_bytes_per_s=500, every_s=0.01)
        with pytest.raises(ClientError, match="CLUSTER_AUTHORIZATION_FAILED"):
            await run.run(lambda progress: None)
        assert len(run.untouched) == 6
        with pytest.raises(ClientError, match="0 moves at a time: 1 to 1000 are allowed") as raised:
            client.mover.of(MOVES, concurrent=0)
        assert raised.value.failure is Failure.INVALID

    cluster.run(monkeypatch, job)
    assert not cluster.kinds(messages.AlterPartitionReassignmentsRequest)
