"""Whole brokers over other seams than the machine's: the ground of the cluster's simulation."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

from broker_cy.wire import messages
from broker_cy.wire.frame import ApiKey
from broker_cy.wire.records import Record, encode_batch
from tests.broker_cy.server.harness import fetch_request, produce_request
from tests.broker_cy.server.memory_link import MemoryLink
from tests.broker_cy.server.test_transport import answers, decoded, framed
from tests.broker_cy.server.virtual_world import World

TOPIC = "t"


def ask(world: World, link: MemoryLink, request: Any, key: ApiKey, version: int, response: Any) -> Any:
    link.sent.clear()
    link.arrive(framed(request, key, version, 1))
    world.run_until(lambda: len(link.sent) > 0)
    ((_, payload),) = answers(link.sent)
    return decoded(payload, key, version, response)


def life(path: Path, seed: int) -> tuple[list[Any], float]:
    """Run two brokers with a topic each and records in it, and stop them. Returns what the clients saw, and how long it
    took in virtual seconds.
    """
    world, seen = World(path, seed), list[Any]()
    servers = [world.broker(number) for number in (1, 2)]
    for server in servers:
        server.start()
    for number in (1, 2):
        link = world.connect(number)
        topic = messages.CreateTopicsRequest.CreatableTopic(name=TOPIC, num_partitions=1, replication_factor=1)
        created = ask(
            world,
            link,
            messages.CreateTopicsRequest(topics=[topic], timeout_ms=1000),
            ApiKey.CREATE_TOPICS,
            7,
            messages.CreateTopicsResponse,
        )
        seen.append(created)
        batch = encode_batch([Record(0, world.clock.wall_ms(), b"k", b"of %d" % number, [])])
        seen.append(ask(world, link, produce_request(TOPIC, 0, batch), ApiKey.PRODUCE, 9, messages.ProduceResponse))
        fetched = ask(world, link, fetch_request(TOPIC, 0, 0), ApiKey.FETCH, 11, messages.FetchResponse)
        seen.append(fetched)
        assert b"of %d" % number in fetched.responses[0].partitions[0].records
        # It waits for records that never come: half a minute of virtual time.
        waiting = fetch_request(TOPIC, 0, 1, max_wait_ms=30_000)
        assert (
            not ask(world, link, waiting, ApiKey.FETCH, 11, messages.FetchResponse).responses[0].partitions[0].records
        )
    for server in servers:
        world.loop.run_until_complete(server.stop())
    world.loop.close()
    return seen, world.clock.monotonic()


def test_two_brokers_live_in_one_thread_under_virtual_time(tmp_path: Path) -> None:
    """If this fails, a part of the broker makes threads, waits for the machine's clock or needs sockets, and no
    simulation can hold several brokers.
    """
    threads, began_s = set(threading.enumerate()), time.monotonic()
    _, virtual_s = life(tmp_path, 1)
    assert virtual_s > 60
    # Not a measurement: it shows that nothing waited for real time.
    assert time.monotonic() - began_s < virtual_s
    assert set(threading.enumerate()) <= threads


def test_a_seed_repeats(tmp_path: Path) -> None:
    """If this fails, something draws from the machine, and a failing seed cannot be replayed: topic ids, times and
    offsets differ from run to run.
    """
    assert life(tmp_path / "a", 5) == life(tmp_path / "b", 5)
