"""Listeners and connection limits, with a real broker process."""

from __future__ import annotations

import contextlib
import re
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource

from bench.launch.nodes import broker_command
from broker_cy.launch.processes import Child
from tests.support.broker import BrokerProcess, Target, target_is_kafka
from tests.support.confluent import read_all, send
from tests.support.raw_wire import API_VERSIONS, Connection, frame, receive_frame, request
from tests.support.wait import until

TIMEOUT_S = 30.0
MakeBroker = Callable[..., Target]
pytestmark = pytest.mark.skipif(target_is_kafka(), reason="about our own command line")
ASK = frame(request(API_VERSIONS, 0, b""))


def answered(sock: socket.socket) -> bool:
    """Return whether an ApiVersions request that was sent is answered within the socket's timeout."""
    try:
        return len(receive_frame(sock)) > 8
    except TimeoutError:
        return False


def test_each_listener_returns_its_own_address(tmp_path: Path, topic: str) -> None:
    """If this fails, clients outside a container receive the address for clients inside it, and cannot connect."""
    argv: list[str | Path] = [*broker_command(), "start", "--data-dir", tmp_path / "data"]
    for setting in (
        "listeners=INNER://127.0.0.1:0,OUTER://127.0.0.1:0",
        "listener.security.protocol.map=INNER:PLAINTEXT,OUTER:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name=INNER",
        "advertised.listeners=INNER://127.0.0.1:0,OUTER://localhost:0",
    ):
        argv += ["--set", setting]
    child = Child(argv, tmp_path, "listeners", cwd=Path(__file__).parents[2])
    try:
        until(lambda: child.returncode is not None or "\n" in child.stdout(), "the ready line", 30)
        inner, outer = (int(port) for port in re.findall(r"127\.0\.0\.1:(\d+)", child.stdout()))
        told = []
        for port in (inner, outer):
            metadata = AdminClient({"bootstrap.servers": f"127.0.0.1:{port}"}).list_topics(timeout=TIMEOUT_S)
            told += [(str(broker.host), broker.port) for broker in metadata.brokers.values()]
        assert told == [("127.0.0.1", inner), ("localhost", outer)]
        broker = BrokerProcess(tmp_path)
        broker.port = inner
        send(broker, topic, [b"in by one"])
        assert read_all(f"localhost:{outer}", topic) == [b"in by one"], "and out by the other"
    finally:
        child.kill()


def test_beyond_max_connections_new_ones_wait(make_broker: MakeBroker) -> None:
    """If this fails, max.connections does not protect working clients from a flood, or no client is ever accepted
    again.
    """
    broker = make_broker({"max.connections": "2"})
    address = (broker.host, broker.port)
    with Connection(address) as first, Connection(address) as second:
        for connection in (first, second):
            connection.sock.sendall(ASK)
            assert answered(connection.sock)
        with socket.create_connection(address, TIMEOUT_S) as waiting:
            waiting.sendall(ASK)
            until(lambda: "max.connections" in broker.stderr(), "the listener says that it is full")
            first.sock.sendall(ASK)
            assert answered(first.sock), "who is connected is served"
            second.sock.close()
            assert answered(waiting), "the next one has its turn"


def test_limits_of_connections_follow_the_settings(make_broker: MakeBroker) -> None:
    """If this fails, a limit that was too low can be raised only by a restart."""
    broker = make_broker({"max.connections.per.ip": "3"})
    with contextlib.ExitStack() as held:
        until(lambda: not _served(broker, held), "a connection beyond the limit is closed")
        assert "connection refused: max.connections.per.ip" in broker.stderr()
    entry = ConfigEntry("max.connections.per.ip", "100", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.BROKER, "1", incremental_configs=[entry])
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    (done,) = admin.incremental_alter_configs([resource], request_timeout=TIMEOUT_S).values()
    done.result(TIMEOUT_S)
    with contextlib.ExitStack() as held:
        assert all(_served(broker, held) for _ in range(10))


def _served(broker: Target, held: contextlib.ExitStack) -> bool:
    """Open one more connection, and return whether it is answered; otherwise the broker has closed it."""
    connection = held.enter_context(socket.create_connection((broker.host, broker.port), TIMEOUT_S))
    try:
        connection.sendall(ASK)
        return connection.recv(4) != b""
    except ConnectionError:
        return False
