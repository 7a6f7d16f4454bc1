"""Mutated requests to a broker process from clients without a password: the broker performs none of them."""

from __future__ import annotations

import os
import struct
import urllib.request
from pathlib import Path

import pytest

from broker_cy.wire import messages
from broker_cy.wire.frame import ApiKey
from tests.fuzz.sasl_targets import login_corpus
from tests.fuzz.test_frames import RSS_GROWTH_BYTES_MAX, Attack, GoodClient, corpus, open_sockets, resident_bytes
from tests.fuzz.test_fuzz import SCALE, SEED
from tests.support.sasl_broker import SaslBroker
from tests.support.wait import until

FRAMES = 5_000
SOAK_FRAMES = 300_000
TIMEOUT_S = 20.0
SETTINGS = {
    # Otherwise the test would spend most of its time in delays.
    "connection.failed.authentication.delay.ms": "0",
    "brokercy.metrics.listener": "127.0.0.1:0",
}


def frames_of(data: bytes) -> list[bytes]:
    """Return the frames without their sizes."""
    found = []
    while data:
        size = int.from_bytes(data[:4])
        found.append(data[4 : 4 + size])
        data = data[4 + size :]
    return found


def topics(client: GoodClient) -> list[str | None]:
    """All topics except the broker's own."""
    answer = client.call(ApiKey.METADATA, 8, messages.MetadataRequest(topics=None), messages.MetadataResponse)
    return [each.name for each in answer.topics if not (each.name or "").startswith("__")]


def successes(broker: SaslBroker) -> float:
    address = broker.stdout().partition("http://")[2].split("/")[0]
    page = urllib.request.urlopen(f"http://{address}/metrics", timeout=TIMEOUT_S).read().decode()
    found = [line for line in page.splitlines() if line.startswith("broker_cy_authentications_total")]
    assert any('result="failure"' in line and not line.endswith(" 0") for line in found), "nobody tried to log in"
    return sum(float(line.rpartition(" ")[2]) for line in found if 'result="success"' in line)


def attack(directory: Path, frames: int, seed: int) -> None:
    broker = SaslBroker(directory, SETTINGS)
    broker.start()
    try:
        client = GoodClient((broker.host, broker.open_port))
        client.make_topic("topic-1", 1)
        before = topics(client)
        # The users of these logins have other passwords here. Most frames belong to a login, some come after it.
        logins = [frame for each in login_corpus() for frame in frames_of(each)]
        others = corpus([served for served in client.served() if served[0] not in (ApiKey.API_VERSIONS,)])
        sending = Attack(broker, logins * max(1, len(others) // len(logins)) + others)
        sockets = open_sockets(broker.pid)
        sending.run(frames // 4, seed)
        warm_bytes = resident_bytes(broker.pid)
        sending.run(frames - frames // 4, seed + 1)
        assert successes(broker) == 0, sending.last_payloads()
        assert topics(client) == before, sending.last_payloads()
        client.use("good")
        client.close()
        until(lambda: open_sockets(broker.pid) < sockets, "the connections of the mutants to be closed")
        if "libasan" not in os.environ.get("LD_PRELOAD", ""):
            growth = resident_bytes(broker.pid) - warm_bytes
            assert growth < RSS_GROWTH_BYTES_MAX, f"resident memory grew by {growth} bytes"
        log = broker.stderr()
        assert "internal error" not in log, sending.last_payloads()
        assert "Traceback" not in log, sending.last_payloads()
        assert broker.stop() == 0
    finally:
        broker.close()


def test_who_has_no_password_gets_nothing_done(tmp_path: Path) -> None:
    """If this fails, a client without a password can create topics or read, stop the broker or exhaust its memory."""
    attack(tmp_path, int(FRAMES * SCALE), SEED * 10 + 7)


@pytest.mark.soak
@pytest.mark.timeout(4 * 3600)
def test_who_has_no_password_gets_nothing_done_for_long(tmp_path: Path) -> None:
    """Repeat the test with more frames."""
    attack(tmp_path, SOAK_FRAMES, SEED * 10 + 8)


def test_the_frames_are_read_back() -> None:
    """If this fails, the test above sends no valid login."""
    frame = struct.pack(">hhih", ApiKey.SASL_HANDSHAKE, 1, 1, -1)
    assert frames_of(struct.pack(">i", len(frame)) + frame + struct.pack(">i", 1) + b"x") == [frame, b"x"]
