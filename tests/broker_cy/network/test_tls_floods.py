"""TLS clients that send as many correctly encrypted records as they can, without data or with one byte each: the broker
serves other clients in the meantime.
"""

from __future__ import annotations

import struct
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from broker_cy.wire import messages
from broker_cy.wire.frame import ApiKey
from tests.support import needs

needs.require(needs.tls)
from tests.broker_cy.connections.harness import DEADLINE_S  # noqa: E402
from tests.broker_cy.network.tls_harness import HEARTBEAT_VERSION, TlsHarness  # noqa: E402
from tests.fuzz.wire_targets import request_frame  # noqa: E402
from tests.support.tls_records import ALERT, HANDSHAKE, KEY_UPDATE_REQUESTED, RecordClient  # noqa: E402

RECORDS = 6_000
# openssl.pyx handles 256 in one call. In one turn the socket may be readable, and leftover records may be handled, too.
TURN_RECORDS_MAX = 512
USER_CANCELED = b"\x01\x5a"
CLIENT_HELLO = b"\x01\0\0\1\0"


class FloodHarness(TlsHarness):
    """Counts the turns of its loop from `count_turns` until a request is handled."""

    def __init__(self, directory: Path) -> None:
        self.turns = 0
        self.handled_after: int | None = None
        super().__init__(directory)

    async def _heartbeat(self, _context: Any, _request: Any) -> Any:
        self.handled_after = self.turns
        return messages.HeartbeatResponse()

    def count_turns(self) -> None:
        self.turns += 1
        if self.handled_after is None:
            self.loop.call_soon(self.count_turns)


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[FloodHarness]:
    made = FloodHarness(tmp_path)
    yield made
    made.close()


def heartbeat() -> bytes:
    request = messages.HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
    frame = request_frame(ApiKey.HEARTBEAT, HEARTBEAT_VERSION, request)
    return struct.pack(">i", len(frame)) + frame


def attacker(harness: TlsHarness) -> RecordClient:
    sock = harness.connect()
    sock.settimeout(DEADLINE_S)
    return RecordClient(sock, harness.authority.pem, harness.files)


def test_key_updates_between_data(harness: FloodHarness) -> None:
    """If this fails, clients that change their keys are not understood, and the tests below show nothing."""
    client = attacker(harness)
    request = heartbeat()
    client.socket.sendall(client.record(request[:3]) + client.key_update() + client.record(request[3:], padding=99))
    assert client.socket.recv(65_536)
    assert harness.handled_after == 0


@pytest.mark.parametrize("kind", ["key updates", "single bytes"])
def test_one_turn_takes_a_bounded_number_of_records(harness: FloodHarness, kind: str) -> None:
    """If this fails, one client that is not even logged in blocks all others for as long as it likes."""
    client = attacker(harness)
    if kind == "key updates":
        flood = [client.key_update() for _ in range(RECORDS)] + [client.record(heartbeat())]
    else:
        # A Heartbeat of version 0, with bytes behind it, which are ignored.
        request = struct.pack(">ihh", RECORDS, ApiKey.HEARTBEAT, 0) + bytes(RECORDS - 4)
        flood = [client.record(request[at : at + 1]) for at in range(len(request))]
    sent = b"".join(flood)
    held, may_go = threading.Event(), threading.Event()

    def hold() -> None:
        held.set()
        may_go.wait(DEADLINE_S)
        harness.count_turns()

    harness.loop.call_soon_threadsafe(hold)
    assert held.wait(DEADLINE_S)
    # All records are in the sockets when the loop continues, so that it never waits for more.
    client.socket.setblocking(False)
    at = 0
    while at < len(sent):
        at += client.socket.send(sent[at:])
    may_go.set()
    client.socket.settimeout(DEADLINE_S)
    assert client.socket.recv(65_536)
    assert harness.handled_after is not None
    assert harness.handled_after >= RECORDS / TURN_RECORDS_MAX - 1


@pytest.mark.parametrize(("kind", "content"), [(ALERT, USER_CANCELED), (HANDSHAKE, CLIENT_HELLO)])
def test_what_is_never_data_ends_the_connection(harness: FloodHarness, kind: int, content: bytes) -> None:
    """If this fails, a client keeps the broker busy with data that never becomes a request."""
    client = attacker(harness)
    try:
        for _ in range(100):
            client.socket.sendall(client.record(content, kind))
        while client.socket.recv(65_536):
            pass
    except ConnectionError:
        pass
    assert client.socket.fileno() >= 0
    assert harness.handled_after is None


def test_key_updates_that_want_an_answer(harness: FloodHarness) -> None:
    """If this fails, a client that asks for new keys often, and does not read in between, is not served."""
    client = attacker(harness)
    for _ in range(1_000):
        client.socket.sendall(client.record(KEY_UPDATE_REQUESTED, HANDSHAKE))
        client.update()
    client.socket.sendall(client.record(heartbeat()))
    harness.wait_until(lambda: harness.handled_after is not None)
