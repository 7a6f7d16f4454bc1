"""The status of flows as JSON and as metrics."""

from __future__ import annotations

import asyncio
import json

import pytest

from broker_cy.admin import ClientError
from broker_cy.client.address import Address, parse_address
from broker_cy.client.http_exchange import HttpAnswer, exchange
from broker_cy.client.mirror_status import FlowStatus, MirrorStatus, PartitionState, Restart, status_of
from broker_mirror.listener import Listener
from broker_mirror.service import PAUSE_MAX_S, STEADY_S, Pauses, returning_of
from broker_mirror.status import Rate, metrics_page
from tests.broker_mirror.tasks.flow_rows import IDENTITY, flows

PART = PartitionState("t", 3, "A.t", 10, 15, 8, 5, 120, 8, 800, "the target has no partition 3", True, 35)
STATUS = MirrorStatus(
    "1.0",
    (
        FlowStatus(
            "A",
            "B",
            "copy",
            "running",
            share="1 of 2",
            leads=True,
            partitions=(PART, PartitionState("u", 0, "A.u", None, None, None, None, None, 0, 0, None, False)),
            problems={"copy": "slow"},
            loops=("B.t",),
            groups={"g": 2},
            records_per_s=1.5,
            bytes_per_s=150.0,
            checkpoint_ms=12,
            checkpoint_at_ms=1_700_000_000_000,
            restarts=1,
            last_restarts=(Restart(5, "a reason"),),
        ),
        FlowStatus("B", "A", "copy", "waiting"),
    ),
)


def test_the_status_is_the_same_after_json() -> None:
    """If this fails, `broker-mirror status` shows other values than the process has."""
    assert status_of(json.loads(STATUS.to_json())) == STATUS
    assert [each.lag_records for each in STATUS.flows] == [5, None]
    assert [each.lag_ms for each in STATUS.flows] == [120, None]


def test_metrics_have_a_line_for_each_known_value() -> None:
    """If this fails, alerts on the lag or on problems do not fire."""
    lines = [line for line in metrics_page(STATUS).decode().splitlines() if not line.startswith("#")]
    assert 'broker_mirror_lag_records{source="A",target="B",topic="A.t",partition="3"} 5' in lines
    assert 'broker_mirror_record_age_ms{source="A",target="B",topic="A.t",partition="3"} 120' in lines
    assert 'broker_mirror_replication_latency_ms{source="A",target="B",topic="A.t",partition="3"} 35' in lines
    assert 'broker_mirror_problems{source="A",target="B"} 2' in lines
    assert 'broker_mirror_flow_running{source="B",target="A"} 0' in lines
    assert 'broker_mirror_checkpoint_latency_ms{source="A",target="B"} 12' in lines
    assert not any('topic="A.u"' in line and "lag" in line for line in lines)


def test_rates_are_those_of_the_window() -> None:
    """If this fails, the throughput of a flow is wrong after a pause or a restart."""
    rate = Rate(3.0)
    assert rate.per_s() == (0.0, 0.0)
    for second in range(10):
        rate.note(float(second), second * 10, second * 1000)
    assert rate.per_s() == (10.0, 1000.0)
    rate.note(10.0, 0, 0)
    rate.note(11.0, 4, 400)
    assert rate.per_s() == (4.0, 400.0)


def test_pauses_between_restarts_grow_to_a_bound() -> None:
    """If this fails, a flow that cannot run loads its clusters with attempts, or waits too long after a short cut."""
    pauses = Pauses()
    assert [pauses.after(0.0) for _ in range(8)] == [1, 2, 4, 8, 16, 32, PAUSE_MAX_S, PAUSE_MAX_S]
    assert pauses.after(STEADY_S) == 1


def test_the_flow_in_the_other_direction_is_a_circle_without_names() -> None:
    """If this fails, two flows with IdentityReplicationPolicy copy a topic in a circle."""
    both = {"B->A.enabled": "true", "B->A.topics": "t"}
    there, back = flows(**{**both, "replication.policy.class": IDENTITY})
    found = returning_of(there, (there, back))
    assert found is not None
    assert [name for name in ("t", "u") if found.takes(name)] == ["t"]
    assert returning_of(there, (there,)) is None
    there, back = flows(**both)
    assert returning_of(there, (there, back)) is None


@pytest.mark.parametrize(
    ("method", "target", "status"),
    [
        ("GET", "/status", 200),
        ("GET", "/metrics", 200),
        ("GET", "/healthz", 200),
        ("GET", "/readyz", 503),
        ("GET", "/", 404),
        ("POST", "/", 405),
    ],
)
def test_pages(method: str, target: str, status: int) -> None:
    """If this fails, a monitoring system gets no metrics."""

    async def job() -> HttpAnswer:
        async with Listener(Address("127.0.0.1", 0), lambda: STATUS) as listener:
            address = parse_address(listener.url.removeprefix("http://"))
            return await exchange(address, method, target, answer_bytes_max=1 << 20)

    answer = asyncio.run(job())
    assert answer.status == status
    if target == "/status":
        assert status_of(json.loads(answer.body)) == STATUS


def test_a_bad_request_ends_only_its_connection() -> None:
    """If this fails, a client that speaks another protocol stops the pages."""

    async def job() -> tuple[bytes, int]:
        async with Listener(Address("127.0.0.1", 0), lambda: STATUS) as listener:
            address = parse_address(listener.url.removeprefix("http://"))
            reader, writer = await asyncio.open_connection(*address)
            writer.write(b"\x00\x01 no HTTP\r\n\r\n")
            said = await reader.read()
            writer.close()
            return said, (await exchange(address, "GET", "/healthz", answer_bytes_max=1 << 20)).status

    assert asyncio.run(job()) == (b"", 200)


def test_an_address_in_use_is_named() -> None:
    """If this fails, a user does not see which setting to change."""

    async def job() -> None:
        async with Listener(Address("127.0.0.1", 0), lambda: STATUS) as listener:
            address = parse_address(listener.url.removeprefix("http://"))
            with pytest.raises(ClientError, match=r"brokercy\.mirror\.listener.*cannot be bound"):
                await Listener(address, lambda: STATUS).__aenter__()

    asyncio.run(job())
