"""In-sync sets that leaders propose (AlterPartition)."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from broker_cy.controller.alter_partition import AlterPartition
from broker_cy.core.errors import ErrorCode, KafkaError
from broker_cy.wire import codec, messages
from tests.broker_cy.controller.brokers import Brokers
from tests.support.images import same_content


@pytest.fixture
def cluster() -> Brokers:
    found = Brokers.of(1, 2, 3, 4)
    found.create("t", [1, 2, 3], min_isr=2)
    return found


def test_shrink_and_expand(cluster: Brokers) -> None:
    """If this fails, a slow follower holds back all producers, or never counts again."""
    before = cluster.partition("t")
    assert cluster.propose("t", [1, 2]) is ErrorCode.NONE
    after = cluster.partition("t")
    assert (after.isr, after.leader_epoch, after.partition_epoch) == ((1, 2), before.leader_epoch, 1)
    assert cluster.propose("t", [1, 3, 2]) is ErrorCode.NONE
    assert cluster.partition("t").isr == (1, 3, 2)
    assert same_content(cluster.replayed(), cluster.image)


def test_the_answer_is_the_new_state(cluster: Brokers) -> None:
    """If this fails, the leader continues with another in-sync set than the cluster has."""
    (topic,) = cluster.run(cluster.proposal("t", [1, 2])).topics
    (part,) = topic.partitions
    assert (part.leader_id, part.leader_epoch, part.isr, part.partition_epoch) == (1, 0, [1, 2], 1)


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"leader_epoch": 7}, ErrorCode.NOT_CONTROLLER),
        ({"partition_epoch": 7}, ErrorCode.NOT_CONTROLLER),
        ({"leader_epoch": -1}, ErrorCode.FENCED_LEADER_EPOCH),
        ({"broker_id": 2}, ErrorCode.INVALID_REQUEST),
        ({"partition_epoch": -1}, ErrorCode.INVALID_UPDATE_VERSION),
        ({"partition_index": 9}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ({"new_isr_with_epochs": []}, ErrorCode.INVALID_REQUEST),
        ({"leader_recovery_state": 1}, ErrorCode.INVALID_REQUEST),
        ({"leader_recovery_state": 5}, ErrorCode.INVALID_REQUEST),
    ],
)
def test_a_proposal_on_another_state_is_refused(cluster: Brokers, fields: dict[str, Any], code: ErrorCode) -> None:
    """If this fails, a leader that was replaced, or missed a change, overwrites the newer in-sync set."""
    size = len(cluster.log)
    assert cluster.propose("t", [1, 2], **fields) is code
    assert len(cluster.log) == size


@pytest.mark.parametrize("isr", [[1, 4], [2, 3], [1, 2, 2]])
def test_the_set_is_a_part_of_the_replicas_with_the_leader(cluster: Brokers, isr: list[int]) -> None:
    """KAFKA-9672. If this fails, a broker without the partition counts for acknowledgements."""
    assert cluster.propose("t", isr) is ErrorCode.INVALID_REQUEST


def test_a_broker_that_is_not_in_service_is_not_in_sync(cluster: Brokers) -> None:
    """KAFKA-13916. If this fails, acknowledgements wait for a broker that shuts down, or a dead one may be elected."""
    cluster.beat(3, want_fence=True)
    assert cluster.propose("t", [1, 2, 3]) is ErrorCode.INELIGIBLE_REPLICA
    cluster.beat(3)
    cluster.create("u", [3, 4])
    cluster.beat(3, want_shut_down=True)
    assert cluster.propose("t", [1, 2, 3]) is ErrorCode.INELIGIBLE_REPLICA


def test_an_earlier_incarnation_is_not_in_sync(cluster: Brokers) -> None:
    """KIP-903. If this fails, a broker that lost its records is in sync because it once had them."""
    cluster.now_ms += 60_000
    proposal = cluster.proposal("t", [1, 2, 3])
    cluster.join(3)
    partition = cluster.partition("t")
    data = proposal.request.topics[0].partitions[0]
    data.leader_epoch, data.partition_epoch = partition.leader_epoch, partition.partition_epoch
    (topic,) = cluster.run(proposal).topics
    assert topic.partitions[0].error_code == ErrorCode.INELIGIBLE_REPLICA
    assert cluster.propose("t", [1, 2, 3]) is ErrorCode.NONE


def test_unknown_topics_and_brokers(cluster: Brokers) -> None:
    """If this fails, a proposal for a topic that was created again with the same name changes the new one."""
    proposal = cluster.proposal("t", [1, 2])
    proposal.request.topics[0].topic_id = UUID(int=5)
    (topic,) = cluster.run(proposal).topics
    assert topic.partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID
    with pytest.raises(KafkaError) as error:
        cluster.propose("t", [1, 2], broker_epoch=1_000_000)
    assert error.value.code is ErrorCode.STALE_BROKER_EPOCH


def test_version_2_has_no_epochs(cluster: Brokers) -> None:
    """If this fails, Kafka brokers of 3.2 to 3.4 cannot change in-sync sets."""
    proposal = cluster.proposal("t", [1])
    data = proposal.request.topics[0].partitions[0]
    data.new_isr, data.new_isr_with_epochs = [1, 2], []
    assert cluster.run(AlterPartition(proposal.request, 2)).topics[0].partitions[0].error_code == 0
    assert cluster.partition("t").isr == (1, 2)


def test_two_proposals_in_one_request(cluster: Brokers) -> None:
    """If this fails, the second one is applied to a state that the first one has replaced."""
    proposal = cluster.proposal("t", [1, 2])
    parts = proposal.request.topics[0].partitions
    parts.append(cluster.proposal("t", [1, 3]).request.topics[0].partitions[0])
    (topic,) = cluster.run(proposal).topics
    assert [part.error_code for part in topic.partitions] == [0, ErrorCode.INVALID_UPDATE_VERSION]
    assert cluster.partition("t").isr == (1, 2)


def test_eligible_leaders(cluster: Brokers) -> None:
    """KIP-966. If this fails, a replica that has every acknowledged record may not lead, or one that lacks some may."""
    assert cluster.propose("t", [1, 2]) is ErrorCode.NONE
    assert cluster.partition("t").elr == ()
    assert cluster.propose("t", [1]) is ErrorCode.NONE
    assert cluster.partition("t").elr == (2,)
    assert cluster.propose("t", [1, 3]) is ErrorCode.NONE
    assert cluster.partition("t").elr == ()


def test_recovery_ends(cluster: Brokers) -> None:
    """KIP-704. If this fails, a partition stays in recovery after an unclean election, or ends it too early."""
    cluster.create("u", [1, 2], unclean=True)
    cluster.propose("u", [1])
    cluster.configure("u", "min.insync.replicas", None)
    cluster.beat(1, want_fence=True)
    assert (cluster.partition("u").leader, cluster.partition("u").leader_recovery_state) == (2, 1)
    assert cluster.propose("u", [2, 1], leader_recovery_state=1) is ErrorCode.INVALID_REQUEST
    cluster.beat(1)
    assert cluster.propose("u", [2, 1], leader_recovery_state=0) is ErrorCode.NONE
    assert cluster.partition("u").leader_recovery_state == 0


def test_messages_are_answered_by_the_codec(cluster: Brokers) -> None:
    """If this fails, the answer cannot be sent in the versions that are served."""
    reply = cluster.run(cluster.proposal("t", [1, 2]))
    for version in (2, 3):
        content = codec.encode(reply, version)
        assert codec.decode(messages.AlterPartitionResponse, version, content) == reply
