"""The raw driver as the load generator uses it: loops with a given start, new connections, acknowledgements."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.targets.brokers import BrokerCy
from bench.wire import protocol, transactional
from bench.wire.batches import Batch
from bench.wire.protocol import Template
from bench.wire.raw import Driver

TOPIC, RECORDS = "t", 3
NS = 1_000_000_000


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerCy]:
    with BrokerCy(tmp_path_factory.mktemp("pieces") / "data").running() as target:
        assert isinstance(target, BrokerCy)
        with protocol.Client(target.address) as client:
            client.create_topic(TOPIC, 2, {})
        yield target


def template(partition: int) -> Template:
    batch = Batch(protocol.record_batch(20, RECORDS), RECORDS)
    return protocol.produce_apart(TOPIC, partition, batch.data + protocol.PRODUCE_TAIL, RECORDS, protocol.ACKS_ALL)


def producer_id(broker: BrokerCy) -> tuple[int, int]:
    with protocol.Client(broker.address) as client:
        return transactional.init_producer(client)


def finish(driver: Driver) -> None:
    while not driver.loop(0.1):
        pass


def test_what_is_overdue_at_the_begin_is_charged(broker: BrokerCy) -> None:
    """If this fails, a stall that lasts into the next piece of a rate curve vanishes from the latencies."""
    driver = Driver(broker.address, [[template(0)], [template(1)]])
    origin_ns = time.monotonic_ns() - NS
    driver.start_open(start=20, end=20, ramp_s=0, seconds=1.0, origin_ns=origin_ns)
    finish(driver)
    driver.last_samples()
    driver.close()
    assert (driver.responses, driver.errors) == (20, 0)
    # Request i was due i/20 s after the origin, and none was sent before a second had passed.
    assert driver.latency.highest >= NS
    assert driver.latency.percentile(50) >= NS // 2


def test_a_begin_in_the_future_is_waited_for(broker: BrokerCy) -> None:
    """If this fails, the processes of a run do not start together."""
    driver = Driver(broker.address, [[template(0)]])
    origin_ns = time.monotonic_ns() + NS // 5
    driver.start_open(start=50, end=50, ramp_s=0, seconds=0.1, origin_ns=origin_ns)
    finish(driver)
    driver.last_samples()
    assert driver.responses == 5
    assert time.monotonic_ns() >= origin_ns + NS * 8 // 100
    assert driver.latency.negative == 0
    driver.close()


def test_numbers_count_on_from_the_piece_before(broker: BrokerCy) -> None:
    """If this fails, each piece of a rate curve begins with an extra request, and the rate is too high."""
    driver = Driver(broker.address, [[template(0)]])
    driver.start_open(start=10, end=10, ramp_s=0, seconds=0.45, first=2.5)
    finish(driver)
    assert driver.responses == 2  # numbers 2.5 and 3.5 of 4.5
    driver.close()


def test_lost_connections_are_made_again_as_other_producers(broker: BrokerCy) -> None:
    """If this fails, a load run of idempotent producers ends at an error, or miscounts the records it sent."""
    first = [producer_id(broker), producer_id(broker)]
    driver = Driver([broker.address] * 2, [[template(0)], [template(1)]], producers=list(first), giving_up=True)
    driver.start_closed(depth=2, requests=10, seconds=10)
    finish(driver)
    with pytest.raises(ValueError, match="connection 0 is not lost"):
        driver.revive(0, broker.address, producer_id(broker))
    before = driver.acknowledged()
    assert [each[:3] for each in before] == [(0, first[0][0], 0), (1, first[1][0], 1)]
    assert sum(each[3] for each in before) == sum(each[4] for each in before) == 10 * RECORDS == driver.records
    # Another program fences the first connection's producer with a newer epoch.
    taken = bytearray(protocol.record_batch(20, RECORDS))
    transactional.stamp(taken, 0, len(taken), transactional.Producer(first[0][0], first[0][1] + 1), 0)
    with protocol.Client(broker.address) as client:
        client.produce(protocol.produce_request(TOPIC, 0, bytes(taken), RECORDS))
    driver.start_open(start=100, end=100, ramp_s=0, seconds=0.5)
    while not driver.loop(0.05):
        if driver.lost():
            break
    assert driver.lost() == [0]
    assert driver.first_error is not None
    assert "Produce error" in driver.first_error
    refused = driver.acknowledged()[0]
    assert refused[3] == before[0][3] < refused[4]
    other = producer_id(broker)
    driver.revive(0, broker.address, other)
    finish(driver)
    assert driver.lost() == []
    assert driver.errors + driver.responses == 50
    after = driver.acknowledged()[0]
    assert after[1] == other[0]
    assert after[3] == after[4] > 0
    driver.close()


@pytest.mark.parametrize("is_back", [True, False])
def test_each_request_of_an_outage_is_answered_or_fails(broker: BrokerCy, is_back: bool) -> None:
    """If this fails, requests that were due while no connection was open are missing in the figures of a run."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        driver = Driver(listener.getsockname(), [[template(0)]])
        listener.accept()[0].close()
    driver.start_open(start=1000, end=1000, ramp_s=0, seconds=0.2)
    begun_ns = time.monotonic_ns()
    finish(driver)
    assert driver.lost() == [0]
    lost = driver.errors
    while time.monotonic_ns() < begun_ns + NS * (1 if is_back else 3) // 10:
        assert driver.loop(0.001)  # nothing can be sent, but more and more requests are due
    if is_back:
        driver.revive(0, broker.address)
        finish(driver)
        assert driver.responses == 200 - lost
    else:
        driver.fail_due()
        driver.fail_due()
        assert driver.responses == 0
    assert driver.errors + driver.responses == 200
    assert sum(each[3] for each in driver.last_samples()) == driver.responses
    driver.close()


def test_it_works_where_gevent_has_patched_the_process() -> None:
    """If this fails, the engine cannot be used under locust: gevent removes epoll from Python's select module."""
    program = (
        "from gevent import monkey; monkey.patch_all()\n"
        "from bench.wire.raw import Driver\n"
        "try:\n    Driver(('127.0.0.1', 1), [[None]])\nexcept AttributeError as error:\n    print(error)\n"
    )
    root = str(Path(__file__).resolve().parents[3])
    run = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": root},
        timeout=60,
        check=False,
    )
    assert run.stdout == "'NoneType' object has no attribute 'partitions'\n"
