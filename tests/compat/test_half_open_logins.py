"""Many clients that connect and do not log in: their cost, and their effect on other clients."""

from __future__ import annotations

import contextlib
import resource
import socket
import struct
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from confluent_kafka import Producer

from tests.support.broker import target_is_kafka
from tests.support.sasl_broker import ALICE, PASSWORD, SaslBroker
from tests.support.wait import until

pytestmark = [
    pytest.mark.skipif(target_is_kafka(), reason="about our own settings"),
    # These tests need many file descriptors and much memory.
    pytest.mark.serial,
]
TIMEOUT_S = 60.0
MIB = 1 << 20
# connection.pxd
LOGIN_BYTES_MAX = 64 * MIB
WAITING = 10_000
FRAME_BYTES = 500_000
HALF_BYTES = 300_000
BUFFER_BYTES = 256 * 1024
# For the interpreter's arenas, and one more buffer for each read.
SLACK_BYTES = 48 * MIB
EACH_BYTES = 16_384


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[SaslBroker]:
    settings = {"brokercy.authentication.timeout.ms": "600000", "brokercy.metrics.enable": "false"}
    found = SaslBroker(tmp_path, settings)
    try:
        yield found.start()
    finally:
        found.close()


def resident_bytes(broker: SaslBroker) -> int:
    return int(Path(f"/proc/{broker.pid}/statm").read_text().split()[1]) * resource.getpagesize()


def produce(broker: SaslBroker, topic: str) -> None:
    producer = Producer(
        {
            "bootstrap.servers": broker.bootstrap,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": ALICE,
            "sasl.password": PASSWORD,
        }
    )
    producer.produce(topic, b"x")
    assert producer.flush(TIMEOUT_S) == 0


def is_closed(sock: socket.socket) -> bool:
    sock.setblocking(False)
    try:
        return sock.recv(1) == b""
    except BlockingIOError:
        return False
    except ConnectionError:
        return True


def test_ten_thousand_clients_that_only_connect(broker: SaslBroker, topic: str) -> None:
    """If this fails, a client that opens connections keeps others from logging in, or makes the broker's memory grow
    with each one.
    """
    produce(broker, topic)
    before = resident_bytes(broker)
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    count = min(WAITING, soft - 2_000)
    with ExitStack() as stack:
        for number in range(count):
            sock = stack.enter_context(socket.create_connection((broker.host, broker.port), TIMEOUT_S))
            if number % 2:
                sock.sendall(struct.pack(">i", FRAME_BYTES) + b"\0" * 100)
        produce(broker, topic)
        each = (resident_bytes(broker) - before) / count
        print(f"{count} connections, {each:.0f} bytes each")
        assert each < EACH_BYTES
        produce(broker, topic)


def test_unfinished_requests_have_one_bound(broker: SaslBroker, topic: str) -> None:
    """If this fails, clients that are not logged in exhaust the memory, each within its own limit (CVE-2022-34917), or
    then keep others from logging in.
    """
    produce(broker, topic)
    before = resident_bytes(broker)
    with ExitStack() as stack:
        socks = []
        for _ in range(600):
            sock = stack.enter_context(socket.create_connection((broker.host, broker.port), TIMEOUT_S))
            socks.append(sock)
            with contextlib.suppress(ConnectionError):
                sock.sendall(struct.pack(">i", FRAME_BYTES) + b"\0" * HALF_BYTES)
        # Bytes of the last clients may still be in the kernel: then these clients are refused a little later.
        until(
            lambda: sum(not is_closed(sock) for sock in socks) * BUFFER_BYTES <= LOGIN_BYTES_MAX,
            "refused connections",
            TIMEOUT_S,
        )
        kept = [sock for sock in socks if not is_closed(sock)]
        assert kept
        grown = resident_bytes(broker) - before
        print(f"{len(kept)} connections kept, {grown / MIB:.0f} MiB")
        assert grown <= LOGIN_BYTES_MAX + SLACK_BYTES
        # Logins are small and do not need this memory.
        produce(broker, topic)
        for sock in kept:
            sock.close()
        # Other clients can use the memory that these held.
        again = stack.enter_context(socket.create_connection((broker.host, broker.port), TIMEOUT_S))
        again.sendall(struct.pack(">i", FRAME_BYTES) + b"\0" * HALF_BYTES)
        produce(broker, topic)
        assert not is_closed(again)
