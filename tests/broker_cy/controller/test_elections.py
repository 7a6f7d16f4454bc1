"""Elections: the replicas that may lead, and those that may not."""

from __future__ import annotations

from uuid import UUID

import pytest

from broker_cy.controller import elections
from broker_cy.controller.broker_states import FenceBrokers, ReplaceLeaders
from broker_cy.controller.directories import AssignReplicasToDirectories
from broker_cy.controller.elections import PREFERRED, UNCLEAN, BalanceLeaders, ElectLeaders, ElectUnclean
from broker_cy.controller.operation import RECORDS_PER_STEP_MAX
from broker_cy.controller.rules import UNCLEAN_ELECTION
from broker_cy.core.errors import ErrorCode, KafkaError
from broker_cy.metadata.fence_reasons import FenceReason
from broker_cy.metadata.image import NO_LEADER
from broker_cy.wire import messages
from tests.broker_cy.controller.brokers import Brokers, directory
from tests.support.images import same_content, topic_in


def led(cluster: Brokers, topic: str = "t") -> tuple[int, tuple[int, ...]]:
    partition = cluster.partition(topic)
    return partition.leader, partition.isr


def fence(cluster: Brokers, *ids: int) -> None:
    for broker_id in ids:
        cluster.run(FenceBrokers((broker_id,), FenceReason.PROCESS_ENDED))


def test_the_withdrawal_of_a_broker_has_bounded_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, the loss of a broker with many partitions blocks every client of the remaining brokers, or some of
    its partitions wait for the fencing.
    """
    monkeypatch.setattr(elections, "CHANGES_PER_PART", 3)
    cluster = Brokers.of(1, 2, 3)
    cluster.create("alone", *[[1]] * 4)
    cluster.create("led", *[[1, 2, 3]] * 7)
    cluster.create("followed", *[[2, 1, 3]] * 8)
    cluster.create("elsewhere", *[[2, 3]] * 5)
    assert cluster.withdraw(ReplaceLeaders((1,))) == [3, 3, 1, 3, 3, 2]
    for topic, leader, isr in (("alone", 1, (1,)), ("led", 2, (2, 3)), ("followed", 2, (2, 3))):
        for partition in topic_in(cluster.image, topic).partitions.values():
            assert (partition.leader, partition.isr) == (leader, isr), topic


@pytest.mark.parametrize("elr", [False, True])
def test_others_lead_before_a_broker_is_fenced(elr: bool) -> None:
    """If this fails, clients wait for the changes of all partitions of a failed broker; or the result differs from that
    of fencing alone.
    """

    def made() -> Brokers:
        cluster = Brokers.of(1, 2, 3, elr=elr)
        cluster.create("led", [1, 2, 3], min_isr=2)
        cluster.create("followed", [2, 1, 3], min_isr=2)
        cluster.create("alone", [1])
        return cluster

    cluster, other = made(), made()
    old = {1: cluster.image.brokers[1].epoch - 1}
    cluster.withdraw(ReplaceLeaders((1,), old))
    assert led(cluster, "led")[0] == 1
    step = cluster.run(ReplaceLeaders((1, 9)))
    assert [led(cluster, topic) for topic in ("led", "followed", "alone")] == [(2, (2, 3)), (2, (2, 1, 3)), (1, (1,))]
    cluster.withdraw(step)
    assert [led(cluster, topic) for topic in ("led", "followed", "alone")] == [(2, (2, 3)), (2, (2, 3)), (1, (1,))]
    assert not cluster.image.brokers[1].fenced
    # Again, it changes nothing.
    offset = cluster.next_offset
    cluster.withdraw(ReplaceLeaders((1,)))
    assert cluster.next_offset == offset
    for each in (cluster, other):
        fence(each, 1)
    for topic in ("led", "followed", "alone"):
        assert cluster.partition(topic) == other.partition(topic)


def test_the_last_in_sync_replica_comes_back_without_eligible_leaders() -> None:
    """If this fails, a partition loses its records, or stays offline, after all its replicas were away."""
    cluster = Brokers.of(1, 2, elr=False)
    cluster.create("t", [1, 2])
    fence(cluster, 1, 2)
    assert led(cluster) == (NO_LEADER, (2,))
    cluster.join(1)
    assert led(cluster) == (NO_LEADER, (2,))
    cluster.join(2)
    assert led(cluster) == (2, (2,))


def test_eligible_leaders_come_back() -> None:
    """KIP-966. If this fails, a partition stays offline although a live replica has all acknowledged records."""
    cluster = Brokers.of(1, 2, 3)
    cluster.create("t", [1, 2, 3], min_isr=2)
    fence(cluster, 1, 2, 3)
    partition = cluster.partition("t")
    assert (partition.leader, partition.isr, partition.elr) == (NO_LEADER, (), (2, 3))
    assert partition.last_known_elr == (3,)
    cluster.join(1)
    assert led(cluster) == (NO_LEADER, ())
    cluster.join(2)
    partition = cluster.partition("t")
    assert (partition.leader, partition.isr, partition.elr, partition.last_known_elr) == (2, (2,), (3,), ())


def test_the_last_known_leader_is_elected_when_nobody_is_eligible() -> None:
    """KIP-966. If this fails, a partition whose replicas all crashed stays offline forever."""
    cluster = Brokers.of(1, 2)
    cluster.create("t", [1, 2], min_isr=1)
    fence(cluster, 2, 1)
    assert cluster.partition("t").last_known_elr == (1,)
    cluster.register(1)
    cluster.register(2)
    assert cluster.partition("t").elr == ()
    cluster.beat(2)
    # A fenced one is not elected (KAFKA-19522).
    assert led(cluster) == (NO_LEADER, ())
    cluster.beat(1)
    partition = cluster.partition("t")
    assert (partition.leader, partition.isr, partition.leader_recovery_state) == (1, (1,), 1)


def test_the_last_known_leader_of_a_cancelled_reassignment() -> None:
    """If this fails, a partition whose only replica lost its disk never gets a leader, and no last known leader is
    recorded.
    """
    cluster = Brokers.of(1, 2)
    cluster.create("t", [1], unclean=True)
    cluster.register(3)
    assert cluster.reassign("t", [2, 3]) is ErrorCode.NONE
    assert cluster.propose("t", [1, 2]) is ErrorCode.NONE
    fence(cluster, 1)
    assert led(cluster) == (2, (2,))
    assert cluster.reassign("t", None) is ErrorCode.NONE
    assert led(cluster) == (NO_LEADER, (1,))
    assert cluster.partition("t").last_known_elr == (2,)


def test_a_report_of_directories_elects_nobody_uncleanly() -> None:
    """If this fails, a replica that was moved to another disk costs a partition its records."""
    cluster = Brokers.of(1, 2)
    cluster.create("t", [1, 2])
    assert cluster.propose("t", [1]) is ErrorCode.NONE
    fence(cluster, 1)
    cluster.configure("t", UNCLEAN_ELECTION, "true")
    request = messages.AssignReplicasToDirsRequest
    topic = request.TopicData(
        topic_id=topic_in(cluster.image, "t").topic_id, partitions=[request.PartitionData(partition_index=0)]
    )
    assert cluster.partition("t").leader == NO_LEADER
    # Any of its directories: its replica is online there.
    place = UUID(int=(1 << 100) + 77)
    second = cluster.image.brokers[2]
    cluster.register(2, incarnation_id=second.incarnation_id, log_dirs=[directory(2), place])
    found = request.DirectoryData(id=place, topics=[topic])
    cluster.run(AssignReplicasToDirectories(request(broker_id=2, broker_epoch=second.epoch, directories=[found])))
    partition = cluster.partition("t")
    assert (partition.leader, partition.directories[1]) == (NO_LEADER, place)
    # The next election that is due elects it.
    cluster.run(ElectUnclean())
    assert cluster.partition("t").leader == 2


@pytest.mark.parametrize("elr", [True, False])
def test_an_unclean_election_needs_permission(elr: bool) -> None:
    """If this fails, records are lost that were acknowledged, although the setting forbids it."""
    cluster = Brokers.of(1, 2, elr=elr)
    cluster.create("t", [1, 2])
    cluster.propose("t", [1])
    fence(cluster, 1)
    assert cluster.partition("t").leader == NO_LEADER
    assert cluster.run(ElectUnclean()) is False
    assert cluster.partition("t").leader == NO_LEADER
    cluster.configure("t", "unclean.leader.election.enable", "true")
    assert cluster.run(ElectUnclean()) is False
    partition = cluster.partition("t")
    assert (partition.leader, partition.isr, partition.elr, partition.leader_recovery_state) == (2, (2,), (), 1)


@pytest.mark.parametrize("level", ["broker", "cluster", "file"])
def test_permission_for_all_topics(level: str) -> None:
    """If this fails, the setting of the brokers has no effect, or that of a topic does not come before it."""
    settings = {"unclean.leader.election.enable": "true"} if level == "file" else {}
    cluster = Brokers.of(1, 2, settings=settings)
    cluster.create("t", [1, 2], unclean=False)
    cluster.configure("t", "unclean.leader.election.enable", None)
    cluster.create("strict", [1, 2], unclean=False)
    if level != "file":
        resource = "" if level == "cluster" else "1"
        record = messages.ConfigRecord(
            resource_type=4, resource_name=resource, name="unclean.leader.election.enable", value="true"
        )
        cluster.run(cluster.records(record))
    for topic in ("t", "strict"):
        cluster.propose(topic, [1])
    fence(cluster, 1)
    assert (cluster.partition("t").leader, cluster.partition("strict").leader) == (2, NO_LEADER)


def test_operators_elect() -> None:
    """If this fails, kafka-leader-election does nothing, or harm."""
    cluster = Brokers.of(1, 2, 3)
    cluster.create("t", [1, 2])
    assert cluster.elect("t") is ErrorCode.ELECTION_NOT_NEEDED
    assert cluster.elect("t", UNCLEAN) is ErrorCode.ELECTION_NOT_NEEDED
    assert cluster.elect("t", index=9) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert cluster.elect("no") is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    fence(cluster, 1)
    assert cluster.elect("t") is ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
    cluster.join(1)
    assert cluster.elect("t") is ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
    cluster.propose("t", [2, 1])
    assert cluster.elect("t", PREFERRED) is ErrorCode.NONE
    assert led(cluster) == (1, (2, 1))
    with pytest.raises(KafkaError, match="Unknown election type 7"):
        cluster.elect("t", 7)


def test_operators_elect_uncleanly_by_name() -> None:
    """If this fails, an operator who accepts the loss of records cannot bring the partition back."""
    cluster = Brokers.of(1, 2)
    cluster.create("t", [1, 2])
    cluster.propose("t", [1])
    fence(cluster, 1)
    assert cluster.elect("t", UNCLEAN) is ErrorCode.NONE
    assert led(cluster) == (2, (2,))
    fence(cluster, 2)
    assert cluster.elect("t", UNCLEAN) is ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE


def test_elections_for_all_partitions() -> None:
    """If this fails, kafka-leader-election --all-topic-partitions lists partitions that need nothing."""
    cluster = Brokers.of(1, 2)
    cluster.create("t", [1, 2], [2, 1])
    fence(cluster, 1)
    cluster.join(1)
    cluster.propose("t", [2, 1])
    response = cluster.run(ElectLeaders(messages.ElectLeadersRequest(topic_partitions=None)))
    (result,) = response.replica_election_results
    assert [(part.partition_id, part.error_code) for part in result.partition_result] == [(0, 0)]


def test_preferred_leaders_come_back_in_small_steps() -> None:
    """If this fails, one broker leads all, or all clients are sent elsewhere at the same moment."""
    cluster = Brokers.of(1, 2)
    cluster.create("t", *[[1, 2]] * 5)
    fence(cluster, 1)
    cluster.join(1)
    for index in range(5):
        cluster.propose("t", [2, 1], index)
    steps = [cluster.run(BalanceLeaders(2)) for _ in range(3)]
    assert steps == [True, True, False]
    assert [cluster.partition("t", i).leader for i in range(5)] == [1] * 5
    assert cluster.run(BalanceLeaders(2)) is False


def test_many_leaders_move_in_few_batches() -> None:
    """If this fails, a broker with many partitions cannot be fenced in one step."""
    cluster = Brokers.of(1, 2)
    count = RECORDS_PER_STEP_MAX // 2 - 10
    for name in ("a", "b", "c"):
        cluster.create(name, *[[1, 2]] * count)
    size = len(cluster.log)
    fence(cluster, 1)
    assert len(cluster.log) == size + 2
    assert all(p.leader == 2 for topic in cluster.image.topics for p in topic.partitions.values())
    assert same_content(cluster.replayed(), cluster.image)
