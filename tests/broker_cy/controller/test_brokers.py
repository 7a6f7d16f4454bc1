"""Registration, heartbeats, fencing and controlled shutdown."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from broker_cy.controller.activation import Activate
from broker_cy.controller.broker_states import FenceBrokers, State
from broker_cy.controller.heartbeats import FLAP_FORGIVEN_MS
from broker_cy.controller.registration import RegisterController, UnregisterBroker
from broker_cy.controller.topic_ops import DeleteTopics, TopicChoice
from broker_cy.core import uuid as uuids
from broker_cy.core.errors import ErrorCode, KafkaError
from broker_cy.metadata.fence_reasons import FenceReason
from broker_cy.metadata.image import NO_LEADER, PartitionImage
from broker_cy.wire import messages
from tests.broker_cy.controller.brokers import Brokers, directory
from tests.support.images import same_content


def refusal(cluster: Brokers, broker_id: int, **fields: object) -> ErrorCode:
    with pytest.raises(KafkaError) as error:
        cluster.register(broker_id, **fields)
    return error.value.code


def test_a_broker_serves_once_it_has_applied_its_registration() -> None:
    """If this fails, clients are sent to a broker that does not know yet which partitions it leads."""
    cluster = Brokers.of()
    epoch = cluster.register(1)
    behind = cluster.beat(1, current_metadata_offset=epoch - 1)
    assert (behind.is_caught_up, behind.is_fenced) == (False, True)
    waiting = cluster.beat(1, want_fence=True)
    assert (waiting.is_caught_up, waiting.is_fenced) == (True, True)
    assert [cluster.image.brokers[1].fenced, cluster.beat(1).is_fenced, cluster.image.brokers[1].fenced] == [
        True,
        False,
        False,
    ]
    with pytest.raises(KafkaError) as error:
        cluster.beat(1, broker_epoch=epoch + 1)
    assert error.value.code is ErrorCode.STALE_BROKER_EPOCH


def test_two_processes_with_one_id_are_kept_apart() -> None:
    """If this fails, two brokers with the same id would both write as the leader of the same partitions."""
    cluster = Brokers.of(1)
    assert refusal(cluster, 1) is ErrorCode.DUPLICATE_BROKER_REGISTRATION
    cluster.now_ms += cluster.controller.heartbeats.session_timeout_ms
    assert refusal(cluster, 1) is ErrorCode.DUPLICATE_BROKER_REGISTRATION
    cluster.now_ms += 1
    first = cluster.image.brokers[1].epoch
    assert cluster.register(1) > first


def test_the_same_incarnation_amends_its_registration() -> None:
    """If this fails, a broker that registers again because an answer was lost would lose its leadership."""
    cluster = Brokers.of(1)
    before = cluster.image.brokers[1]
    assert cluster.register(1, incarnation_id=before.incarnation_id, rack="r2") == before.epoch
    assert cluster.image.brokers[1] == before._replace(rack="r2")


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"cluster_id": "another"}, ErrorCode.INCONSISTENT_CLUSTER_ID),
        ({"log_dirs": []}, ErrorCode.INVALID_REGISTRATION),
        ({"log_dirs": [directory(2), directory(2)]}, ErrorCode.INVALID_REGISTRATION),
        ({"log_dirs": [directory(1)]}, ErrorCode.INVALID_REGISTRATION),
        ({"features": []}, ErrorCode.INVALID_REGISTRATION),
        ({"is_migrating_zk_broker": True}, ErrorCode.BROKER_ID_NOT_REGISTERED),
        (
            {
                "features": [
                    messages.BrokerRegistrationRequest.Feature(
                        name="metadata.version", min_supported_version=1, max_supported_version=29
                    )
                ]
            },
            ErrorCode.UNSUPPORTED_VERSION,
        ),
    ],
)
def test_what_cannot_be_a_member_is_refused(fields: dict[str, object], code: ErrorCode) -> None:
    """If this fails, a broker of another cluster, with another's disk or of an older version would join and do harm."""
    cluster = Brokers.of(1)
    size = len(cluster.log)
    assert refusal(cluster, 2, **fields) is code
    assert len(cluster.log) == size


def test_an_unclean_registration_takes_leadership_away() -> None:
    """KAFKA-18106. If this fails, a broker that crashed and came back unnoticed continues in the leader epoch whose
    records it has lost, and followers keep records that the leader does not have.
    """
    cluster = Brokers.of(1, 2, 3)
    cluster.create("t", [1, 2, 3], min_isr=2)
    before = cluster.partition("t")
    cluster.now_ms += 60_000
    for other in (2, 3):
        cluster.beat(other)
    cluster.register(1)
    after = cluster.partition("t")
    assert (after.leader, after.isr, after.leader_epoch) == (2, (2, 3), before.leader_epoch + 1)
    cluster.beat(1)
    assert cluster.partition("t") == after


@pytest.mark.parametrize("clean", [True, False])
def test_only_a_proven_end_keeps_an_eligible_leader(clean: bool) -> None:
    """KIP-966. If this fails, a broker that lost acknowledged records in a power loss could be elected, or one that has
    all of them could not.
    """
    cluster = Brokers.of(1, 2)
    cluster.create("t", [1, 2], min_isr=2)
    cluster.beat(2, want_fence=True)
    assert (cluster.partition("t").isr, cluster.partition("t").elr) == ((1,), (2,))
    assert refusal(cluster, 2) is ErrorCode.DUPLICATE_BROKER_REGISTRATION
    cluster.now_ms += 60_000
    cluster.register(2, previous_broker_epoch=cluster.image.brokers[2].epoch if clean else -1)
    assert cluster.partition("t").elr == ((2,) if clean else ())


def test_a_lone_restart_gets_a_new_leader_epoch() -> None:
    """If this fails, records that a crash removed and new ones at the same offsets have one epoch (KIP-320)."""
    cluster = Brokers.of(1, elr=False)
    cluster.create("t", [1])
    cluster.now_ms += 60_000
    cluster.register(1)
    assert (cluster.partition("t").leader, cluster.partition("t").isr) == (-1, (1,))
    cluster.beat(1)
    assert (cluster.partition("t").leader, cluster.partition("t").leader_epoch) == (1, 2)


def test_a_lone_broker_that_lost_nothing_goes_on_to_lead() -> None:
    """If this fails, a broker with thousands of partitions elects each of them twice at its start; or a partition goes
    on in its leader epoch although its records, its directory or another replica is elsewhere.
    """
    cluster = Brokers.of(1)
    cluster.create("t", [1], [1])
    previous = cluster.image.brokers[1].epoch
    before = cluster.partition("t")

    def restart(*, is_whole: bool = True, is_proven: bool = True, **fields: Any) -> PartitionImage:
        """The first partition after the registration, when the broker is still fenced."""
        cluster.now_ms += 60_000
        epoch = cluster.image.brokers[1].epoch if is_proven else -1
        operation = cluster.registration(1, previous_broker_epoch=epoch, **fields)
        operation.is_whole = is_whole
        cluster.run(operation)
        return cluster.partition("t")

    size = len(cluster.log)
    assert restart() == before
    cluster.beat(1)
    assert cluster.partition("t") == before
    assert len(cluster.log) == size + 2, "the registration, and the end of the fence"
    assert cluster.image.brokers[1].epoch > previous
    # Its logs were not found, it may have lost records, or the directory of the replica is gone.
    assert restart(is_whole=False).leader == -1
    cluster.beat(1)
    assert restart(is_proven=False).leader == -1
    cluster.beat(1)
    assert restart(log_dirs=[UUID(int=1 << 90)]).leader == -1


def test_a_broker_with_others_begins_new_leader_epochs() -> None:
    """If this fails, another broker acts for a partition in the same leader epoch as one that was killed."""
    cluster = Brokers.of(1, 2)
    cluster.create("t", [1])
    before = cluster.partition("t")
    cluster.now_ms += 60_000
    cluster.beat(2)
    operation = cluster.registration(1, previous_broker_epoch=cluster.image.brokers[1].epoch)
    operation.is_whole = True
    cluster.run(operation)
    assert cluster.partition("t").leader == -1
    cluster.beat(1)
    assert cluster.partition("t").leader_epoch == before.leader_epoch + 2


def test_fencing_moves_leaders_at_once() -> None:
    """If this fails, clients wait for a dead leader, or two dead brokers of one host succeed each other."""
    cluster = Brokers.of(1, 2, 3, 4)
    cluster.create("t", [1, 2, 3], [2, 1, 4], [3, 4, 1])
    assert cluster.run(FenceBrokers((2, 1, 9), FenceReason.PROCESS_ENDED)) == (1, 2)
    assert [cluster.partition("t", i).leader for i in range(3)] == [3, 4, 3]
    assert [cluster.partition("t", i).isr for i in range(3)] == [(3,), (4,), (3, 4)]
    assert cluster.run(FenceBrokers((2, 1), FenceReason.PROCESS_ENDED)) == ()
    assert same_content(cluster.replayed(), cluster.image)


def test_a_broker_that_registered_again_is_not_fenced_for_its_predecessor() -> None:
    """If this fails, a slow verdict about a dead process fences the one that replaced it."""
    cluster = Brokers.of(1)
    old = cluster.image.brokers[1].epoch
    cluster.now_ms += 60_000
    cluster.join(1)
    assert cluster.run(FenceBrokers((1,), FenceReason.PROCESS_ENDED, {1: old})) == ()
    assert not cluster.image.brokers[1].fenced


def test_a_broker_that_flaps_is_held_down() -> None:
    """If this fails, leaderships move back and forth with a broker that repeatedly seems to stand still."""
    cluster = Brokers.of(1, 2)
    epoch = cluster.image.brokers[1].epoch

    def fenced_for() -> int:
        """Fence the broker wrongly. Returns for how long its heartbeats do not bring it back."""
        assert cluster.run(FenceBrokers((1,), FenceReason.STANDS_STILL, {1: epoch}, ended=False)) == (1,)
        began_ms = cluster.now_ms
        cluster.beat(1)
        while cluster.image.brokers[1].fenced:
            cluster.now_ms += 100
            cluster.beat(1)
        return cluster.now_ms - began_ms

    assert [fenced_for() for _ in range(7)] == [0, 500, 1_000, 2_000, 4_000, 8_000, 8_000]
    cluster.now_ms += FLAP_FORGIVEN_MS + 1
    assert fenced_for() == 0
    assert fenced_for() == 500
    cluster.run(FenceBrokers((2,), FenceReason.STANDS_STILL, ended=False))
    assert fenced_for() == 0, "there is no other broker in service"


def test_a_broker_that_flaps_and_alone_can_lead_is_not_held_down() -> None:
    """If this fails, partitions have no leader for seconds although a broker that has all their records runs."""
    cluster = Brokers.of(1, 2, 3)
    cluster.create("a", [1, 2])
    cluster.create("b", [1])

    def is_held() -> bool:
        """Fence the broker wrongly, three times; returns whether its heartbeat brings it back after the last one."""
        for _ in range(3):
            cluster.now_ms += 10_000
            cluster.beat(1)
            cluster.run(FenceBrokers((1,), FenceReason.STANDS_STILL, ended=False))
        cluster.beat(1)
        return cluster.image.brokers[1].fenced

    assert not is_held(), "no other broker has partition b"
    assert cluster.partition("b").leader == 1
    cluster.run(DeleteTopics([TopicChoice("b", uuids.ZERO)]))
    assert is_held()
    assert cluster.partition("a").leader == 2
    # Broker 2 led partition a, which now has no leader.
    cluster.run(FenceBrokers((2,), FenceReason.PROCESS_ENDED))
    assert cluster.partition("a").leader == -1
    cluster.beat(1)
    held = cluster.image.brokers[1].fenced
    assert held is (1 not in (*cluster.partition("a").isr, *cluster.partition("a").elr))


def test_sessions_end() -> None:
    """If this fails, a dead broker keeps its leadership, or a live one loses it."""
    cluster = Brokers.of(1, 2)
    heartbeats = cluster.controller.heartbeats
    timeout = heartbeats.session_timeout_ms
    cluster.now_ms = timeout
    cluster.beat(2)
    assert heartbeats.expired(cluster.image.brokers, timeout) == ()
    assert heartbeats.next_check_ms(cluster.image.brokers) == timeout + 1
    assert heartbeats.expired(cluster.image.brokers, timeout + 1) == (1,)
    cluster.run(FenceBrokers((1,), FenceReason.SESSION_TIMEOUT))
    assert heartbeats.expired(cluster.image.brokers, timeout + 1) == ()


def test_a_new_controller_starts_sessions_afresh() -> None:
    """If this fails, each change of the controller fences all brokers."""
    cluster = Brokers.of(1, 2)
    cluster.now_ms = 100_000
    other = cluster.restarted()
    heartbeats = other.controller.heartbeats
    assert heartbeats.expired(other.image.brokers, other.now_ms + heartbeats.session_timeout_ms) == ()
    assert heartbeats.expired(other.image.brokers, other.now_ms + heartbeats.session_timeout_ms + 1) == (1, 2)


def test_a_killed_node_does_not_wait_for_its_own_session() -> None:
    """If this fails, a node that was killed, and is the active controller when it is back, is out of service until the
    session of its former process has ended.
    """
    cluster = Brokers.of(1, 2)
    cluster.run(Activate([], in_transaction=False))
    assert refusal(cluster, 2) is ErrorCode.DUPLICATE_BROKER_REGISTRATION
    former = cluster.image.brokers[1].epoch
    assert cluster.register(1) > former
    cluster.beat(1)
    assert refusal(cluster, 1) is ErrorCode.DUPLICATE_BROKER_REGISTRATION


def test_a_shutdown_moves_leaders_first() -> None:
    """If this fails, a controlled shutdown causes client errors: the broker stops before others lead, or know that they
    lead.
    """
    cluster = Brokers.of(1, 2)
    cluster.create("t", [1, 2])
    behind = cluster.next_offset - 1
    cluster.beat(2)
    reply = cluster.beat(1, want_shut_down=True)
    assert (reply.state, reply.should_shut_down, reply.is_fenced) == (State.SHUTTING_DOWN, False, False)
    assert cluster.image.brokers[1].in_controlled_shutdown
    assert (cluster.partition("t").leader, cluster.partition("t").isr) == (2, (2,))
    cluster.beat(2, current_metadata_offset=behind)
    assert not cluster.beat(1, want_shut_down=True).should_shut_down
    cluster.beat(2)
    reply = cluster.beat(1, want_shut_down=True)
    assert (reply.should_shut_down, reply.is_fenced) == (True, True)
    assert cluster.image.brokers[1].fenced


def test_a_broker_that_leads_nothing_may_stop_at_once() -> None:
    """If this fails, stopping an idle broker waits for the others."""
    cluster = Brokers.of(1, 2)
    assert cluster.beat(1, want_shut_down=True).should_shut_down
    assert cluster.beat(1, want_shut_down=True).should_shut_down


def test_a_shutdown_ends_with_the_session() -> None:
    """If this fails, a broker that came back after its stop was given up loses its leaders with each heartbeat."""
    cluster = Brokers.of(1, 2)
    cluster.create("t", [1])
    assert cluster.beat(1, want_shut_down=True).state is State.SHUTTING_DOWN
    cluster.run(FenceBrokers((1,), FenceReason.SESSION_TIMEOUT))
    assert cluster.beat(1).state is State.UNFENCED
    assert cluster.beat(1).state is State.UNFENCED
    assert cluster.partition("t").leader == 1


def test_a_shutdown_waits_for_a_broker_that_stops_no_longer() -> None:
    """If this fails, a broker stops before an unfenced broker has learned the new leaders of its partitions."""
    cluster = Brokers.of(1, 2, 3)
    for name, broker_id in (("t", 1), ("u", 2)):
        cluster.create(name, [broker_id, 3])
        cluster.beat(broker_id, want_shut_down=True)
    second = cluster.image.brokers[2]
    cluster.register(2, incarnation_id=second.incarnation_id)
    assert cluster.image.brokers[2].in_controlled_shutdown
    cluster.beat(3)
    assert not cluster.beat(1, want_shut_down=True).should_shut_down
    cluster.beat(2)
    assert cluster.beat(1, want_shut_down=True).should_shut_down


def test_directories() -> None:
    """If this fails, a replica on a broken disk keeps its leadership, or a cordoned disk gets new replicas."""
    cluster = Brokers.of(1, 2)
    cluster.create("t", [1, 2])
    cluster.beat(1, cordoned_log_dirs=[directory(1)])
    assert cluster.image.brokers[1].cordoned_log_dirs == (directory(1),)
    size = len(cluster.log)
    cluster.beat(1, cordoned_log_dirs=[directory(1)])
    assert len(cluster.log) == size
    cluster.register(1, incarnation_id=cluster.image.brokers[1].incarnation_id, log_dirs=[directory(1), directory(11)])
    cluster.beat(1, offline_log_dirs=[directory(1)])
    assert cluster.image.brokers[1].log_dirs == (directory(11),)
    assert (cluster.partition("t").leader, cluster.partition("t").isr) == (2, (2,))


def test_unregistration() -> None:
    """If this fails, an unregistered broker stays a leader, or counts as in sync."""
    cluster = Brokers.of(1, 2)
    cluster.create("t", [1, 2])
    cluster.run(UnregisterBroker(1))
    assert set(cluster.image.brokers) == {2}
    assert (cluster.partition("t").leader, cluster.partition("t").isr) == (2, (2,))
    with pytest.raises(KafkaError) as error:
        cluster.run(UnregisterBroker(1))
    assert error.value.code is ErrorCode.BROKER_ID_NOT_REGISTERED


def test_unregistration_of_the_broker_that_a_partition_waits_for() -> None:
    """If this fails, a partition stays offline for minutes although an unclean election has become allowed."""
    cluster = Brokers.of(1, 2)
    cluster.create("t", [1, 2], min_isr=2)
    assert cluster.propose("t", [1]) is ErrorCode.NONE
    for broker_id in (2, 1):
        cluster.run(FenceBrokers((broker_id,), FenceReason.PROCESS_ENDED))
    cluster.register(2)
    assert not cluster.beat(2).is_fenced
    partition = cluster.partition("t")
    assert (partition.leader, partition.isr, partition.elr) == (NO_LEADER, (), (1,))
    cluster.configure("t", "unclean.leader.election.enable", "true")
    cluster.run(UnregisterBroker(1))
    partition = cluster.partition("t")
    assert (partition.leader, partition.isr, partition.elr) == (2, (2,), ())


def test_controllers_register() -> None:
    """If this fails, the features of a controller are not known when a feature is changed."""
    cluster = Brokers.of()
    request = messages.ControllerRegistrationRequest(
        controller_id=7,
        incarnation_id=cluster.new_uuid(),
        listeners=[
            messages.ControllerRegistrationRequest.Listener(name="CONTROLLER", host="c", port=9093, security_protocol=0)
        ],
    )
    cluster.run(RegisterController(request))
    assert cluster.image.controllers[7].end_points[0].host == "c"
    assert same_content(cluster.replayed(), cluster.image)
