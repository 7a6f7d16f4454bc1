"""Brokers that refuse connections: which reports get a broker fenced, and how nodes send these reports."""

from __future__ import annotations

import pytest

from broker_cy.controller import refused_connections
from broker_cy.controller.broker_states import FenceBrokers
from broker_cy.controller.refused_connections import ALONE_MS, ENTRIES_MAX, TAG, NoteCuts, NoteRefusedConnections
from broker_cy.core.errors import ErrorCode, KafkaError
from broker_cy.metadata.fence_reasons import FenceReason
from broker_cy.wire import codec, messages
from tests.broker_cy.controller.brokers import Brokers

# The node that has the controller.
ACTIVE = 1


def refused(cluster: Brokers, observer: int, broker_id: int, strangers: frozenset[int] = frozenset()) -> bool:
    """A broker refuses the observer's connection. Returns whether that broker is considered dead, and is fenced."""
    epoch = None if observer == ACTIVE else cluster.image.brokers[observer].epoch
    epochs = {broker_id: cluster.image.brokers[broker_id].epoch}
    gone = cluster.run(NoteRefusedConnections(observer, epoch, epochs, strangers))
    assert gone in ({}, epochs)
    cluster.run(FenceBrokers(tuple(gone), FenceReason.REFUSES_CONNECTIONS, gone))
    return bool(gone)


def test_two_hosts_decide() -> None:
    """If this fails, clients wait for a killed broker until its session expires, or a firewall gets one fenced."""
    cluster = Brokers.of(1, 2, 3)
    assert not refused(cluster, ACTIVE, 2)
    cluster.now_ms += ALONE_MS
    assert not refused(cluster, ACTIVE, 2)
    assert refused(cluster, 3, 2)
    assert cluster.image.brokers[2].fenced
    # Its process has ended, so another process may register immediately.
    cluster.register(2)


def test_the_controller_decides_where_nobody_else_can_be_refused() -> None:
    """If this fails, a killed process goes unnoticed in a cluster of two hosts."""
    cluster = Brokers.of(1, 2)
    assert not refused(cluster, ACTIVE, 2)
    cluster.now_ms += ALONE_MS
    assert refused(cluster, ACTIVE, 2)
    # Brokers of Apache Kafka report nothing.
    cluster = Brokers.of(1, 2, 3)
    assert not refused(cluster, ACTIVE, 2, frozenset((3,)))
    cluster.now_ms += ALONE_MS
    assert refused(cluster, ACTIVE, 2, frozenset((3,)))


def test_a_heartbeat_says_that_a_broker_is_there() -> None:
    """If this fails, a broker is fenced because of reports from before its last heartbeat."""
    cluster = Brokers.of(1, 2, 3)
    assert not refused(cluster, 3, 2)
    cluster.beat(2)
    assert not refused(cluster, ACTIVE, 2)
    cluster.beat(2)
    assert not refused(cluster, 3, 2)


def test_a_report_of_an_old_incarnation_is_refused() -> None:
    """If this fails, reports from a replaced process count against other brokers."""
    cluster = Brokers.of(1, 2, 3)
    old = cluster.image.brokers[3].epoch
    cluster.now_ms += cluster.controller.heartbeats.session_timeout_ms + 1
    cluster.beat(2)
    cluster.join(3)
    with pytest.raises(KafkaError) as error:
        cluster.run(NoteRefusedConnections(3, old, {2: cluster.image.brokers[2].epoch}))
    assert error.value.code is ErrorCode.STALE_BROKER_EPOCH


def test_a_successor_need_not_wait_for_a_session() -> None:
    """If this fails, a broker that was killed and restarted is out of service until its session expires, or a second
    process with its id replaces it while it is alive.
    """
    cluster = Brokers.of(1, 2, 3)
    epochs = {2: cluster.image.brokers[2].epoch}
    with pytest.raises(KafkaError) as error:
        cluster.register(2)
    assert error.value.code is ErrorCode.DUPLICATE_BROKER_REGISTRATION
    cluster.run(NoteCuts(epochs))
    elsewhere = messages.BrokerRegistrationRequest.Listener(name="PLAINTEXT", host="other", port=9092)
    with pytest.raises(KafkaError):
        cluster.register(2, listeners=[elsewhere])
    cluster.beat(2)
    with pytest.raises(KafkaError):
        cluster.register(2)
    cluster.run(NoteCuts(epochs))
    assert cluster.register(2) > epochs[2]


def test_reports_are_a_tagged_field_that_others_pass_over() -> None:
    """If this fails, a heartbeat cannot be read, or its report is lost."""
    told = {7: 1 << 40, 3: 5}
    request = messages.BrokerHeartbeatRequest(broker_id=1, _unknown_tags=refused_connections.tag_of(told))
    for version in range(3):
        read = codec.decode(messages.BrokerHeartbeatRequest, version, codec.encode(request, version))
        assert refused_connections.read_tag(read._unknown_tags) == told
    assert (
        refused_connections.tag_of({}),
        refused_connections.read_tag(()),
        refused_connections.read_tag(((TAG, b"odd"),)),
    ) == ((), {}, {})
    many = dict.fromkeys(range(ENTRIES_MAX + 1), 1)
    assert len(refused_connections.read_tag(refused_connections.tag_of(many))) == ENTRIES_MAX
    assert refused_connections.read_tag(((TAG, bytes(12 * (ENTRIES_MAX + 1))),)) == {}
