"""Connections of clients beyond their quotas: their responses, and how long they are throttled."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from broker_cy.broker.client_quotas import ClientQuotas
from broker_cy.config import BrokerConfig
from broker_cy.connections import charging
from broker_cy.connections.connection import Connection
from broker_cy.metadata.image import ImageDelta, MetadataImage
from broker_cy.metrics.sample import Sample
from broker_cy.telemetry.quota_samples import QUOTAS_MAX, QuotaSamples
from broker_cy.wire import messages
from broker_cy.wire.frame import ApiKey
from broker_cy.wire.records import Record, encode_batch
from tests.broker_cy.connections.harness import fetch_request, produce_request
from tests.broker_cy.connections.memory_link import MemoryBroker, MemoryLink
from tests.broker_cy.network.test_transport import answers, decoded, framed, value

PRODUCE, FETCH, TIME = "producer_byte_rate", "consumer_byte_rate", "request_percentage"
PRODUCE_VERSION, FETCH_VERSION = 9, 12
SIZE = 10_000
HANDLED = ApiKey.LIST_GROUPS


class Peer:
    """A client. `answers` are those that came since the last call of `take`."""

    def __init__(self, broker: QuotaBroker) -> None:
        self.broker = broker
        self.link = MemoryLink()
        self.connection: Connection = broker.memory.connect(self.link)
        self._count = 0

    def send(self, request: Any, key: ApiKey, version: int) -> None:
        self.link.arrive(framed(request, key, version, self._count))
        self._count += 1
        self.broker.memory.loop.run()

    def produce(self, acks: int = -1, times: int = 1) -> None:
        """Requests that arrive together."""
        batch = encode_batch([Record(0, self.broker.memory.clock.wall_ms(), None, value(SIZE), [])])
        for _ in range(times - 1):
            self.link.arrive(framed(produce_request("t", 0, batch, acks), ApiKey.PRODUCE, PRODUCE_VERSION, 0))
        self.send(produce_request("t", 0, batch, acks), ApiKey.PRODUCE, PRODUCE_VERSION)

    def fetch(self, offset: int = 0, **fields: Any) -> None:
        self.send(fetch_request("t", 0, offset, **fields), ApiKey.FETCH, FETCH_VERSION)

    def take(self, key: ApiKey, version: int, response_class: Any) -> list[Any]:
        found = [decoded(payload, key, version, response_class) for _, payload in answers(self.link.sent)]
        self.link.sent.clear()
        return found

    def produced(self) -> list[int]:
        """Return the throttle times of the responses; none of them has an error."""
        found = self.take(ApiKey.PRODUCE, PRODUCE_VERSION, messages.ProduceResponse)
        assert not any(part.error_code for each in found for part in each.responses[0].partition_responses)
        return [each.throttle_time_ms for each in found]

    def fetched(self) -> Any:
        (found,) = self.take(ApiKey.FETCH, FETCH_VERSION, messages.FetchResponse)
        assert found.error_code == 0
        return found

    def handled(self) -> int:
        (found,) = self.take(HANDLED, 1, messages.ListGroupsResponse)
        return int(found.throttle_time_ms)

    def ask(self) -> None:
        self.send(messages.ListGroupsRequest(), HANDLED, 1)


class QuotaBroker:
    """`handler` answers HANDLED."""

    def __init__(self, path: Path, handler: Callable[[Any, Any], Any] | None = None) -> None:
        self.memory = MemoryBroker(path, extra={HANDLED: handler} if handler else None)
        charging.install(self.memory.core)
        config = BrokerConfig.from_properties({"node.id": "1", "log.dirs": str(path)})
        self.quotas = ClientQuotas(config, self.memory.clock)
        self.quotas.attach(self.memory.core)
        self._records: dict[str, Any] = {}

    def set(self, key: str, limit: float | None, **names: str | None) -> None:
        kinds = {"user": "user", "client_id": "client-id", "ip": "ip"}
        part = messages.ClientQuotaRecord.EntityData
        parts = [part(entity_type=kinds[kind], entity_name=name) for kind, name in (names or {"user": None}).items()]
        record = messages.ClientQuotaRecord(entity=parts, key=key, value=limit or 0.0)
        before = self._records.pop(f"{key}{names}", None)
        if limit is not None:
            self._records[f"{key}{names}"] = record
        delta = ImageDelta([], [], [], [], quotas=[(before, None if limit is None else record)])
        self.quotas.apply(delta, MetadataImage())

    def pass_ms(self, ms: int) -> None:
        """Time passes; waits end that are due by then, which the test knows."""
        self.memory.clock.advance_ms(ms)
        timers, self.memory.loop.timers = self.memory.loop.timers, []
        for timer in timers:
            if timer.callback is not None:
                timer.callback()
        self.memory.loop.run()

    @property
    def waits(self) -> dict[str, tuple[int, int]]:
        return {key: (meter.waits, meter.waited_ms) for key, meter in self.quotas.meters() if meter.waits}


def test_a_producer_is_answered_at_once_and_waits_then(tmp_path: Path) -> None:
    """If this fails, a producer beyond its quota is not throttled, loses records, or gets its answer late."""
    broker = QuotaBroker(tmp_path)
    broker.set(PRODUCE, 1000.0)
    peer, other = Peer(broker), Peer(broker)
    peer.produce()
    # (O - T) / T x W, over ten seconds: a bit more than nothing.
    (wait_ms,) = peer.produced()
    assert 0 < wait_ms < 200
    peer.produce()
    peer.produce()
    assert peer.produced() == []
    # Others of the same user share its quota, and are answered with their own wait.
    other.produce()
    (longer_ms,) = other.produced()
    assert longer_ms > 10_000
    broker.pass_ms(wait_ms)
    (again_ms,) = peer.produced()
    assert again_ms > longer_ms
    broker.pass_ms(again_ms)
    assert len(peer.produced()) == 1
    assert broker.waits[PRODUCE][0] == 4


def test_a_producer_without_answers_waits_too(tmp_path: Path) -> None:
    """If this fails, acks=0 is a way around quotas."""
    broker = QuotaBroker(tmp_path)
    broker.set(PRODUCE, 1000.0)
    peer = Peer(broker)
    peer.produce(acks=0)
    peer.produce()
    assert peer.produced() == []
    broker.pass_ms(1000)
    assert len(peer.produced()) == 1


def test_a_consumer_that_has_to_wait_gets_nothing_and_it_does_not_count(tmp_path: Path) -> None:
    """If this fails, a consumer beyond its quota gets records, or is throttled for records that it did not get."""
    broker = QuotaBroker(tmp_path)
    writer = Peer(broker)
    for _ in range(3):
        writer.produce()
    broker.set(FETCH, 2000.0)
    peer = Peer(broker)
    peer.fetch(max_bytes=1)
    first = peer.fetched()
    assert first.throttle_time_ms == 0
    assert len(first.responses[0].partitions[0].records) > SIZE
    peer.fetch(1)
    second = peer.fetched()
    assert second.throttle_time_ms > 0
    assert second.responses == []
    peer.fetch(1)
    assert not peer.link.sent
    # Records that were held back are not charged: they are sent once the earlier bytes have left the quota window.
    waited_ms = second.throttle_time_ms
    broker.pass_ms(second.throttle_time_ms)
    while not (found := peer.fetched()).responses:
        assert waited_ms < 20_000
        peer.fetch(1)
        waited_ms += found.throttle_time_ms
        broker.pass_ms(found.throttle_time_ms)
    assert len(found.responses[0].partitions[0].records) > SIZE


def test_a_fetch_is_never_larger_than_its_quota_allows(tmp_path: Path) -> None:
    """If this fails, a consumer with large fetches is throttled, gets nothing, and is throttled again, forever."""
    broker = QuotaBroker(tmp_path)
    writer = Peer(broker)
    for _ in range(5):
        writer.produce()
    broker.set(FETCH, 2500.0)
    peer = Peer(broker)
    offset = 0
    for _ in range(50):
        peer.fetch(offset)
        found = peer.fetched()
        if found.responses:
            records = found.responses[0].partitions[0].records or b""
            assert len(records) <= 25_000
            offset += len(records) // SIZE
        if offset >= 5:
            break
        broker.pass_ms(max(found.throttle_time_ms, 1))
    assert offset == 5


@pytest.mark.parametrize("is_new", [True, False])
def test_sessions_of_consumers_that_wait(tmp_path: Path, is_new: bool) -> None:
    """If this fails, a consumer's session misses records that were held back, or it uses a session that the broker has
    forgotten.
    """
    broker = QuotaBroker(tmp_path)
    peer = Peer(broker)
    if is_new:
        broker.set(FETCH, 1e-3)
    peer.fetch(session_epoch=0)
    first = peer.fetched()
    if is_new:
        assert (first.throttle_time_ms > 0, first.session_id) == (True, 0)
        assert not broker.memory.core.fetch_sessions.sessions
        return
    assert first.session_id != 0
    Peer(broker).produce()
    broker.set(FETCH, 1e-3)
    empty: dict[str, Any] = {"max_wait_ms": 0, "min_bytes": 1, "max_bytes": 1 << 20, "topics": []}
    for epoch, waits in ((1, True), (2, False)):
        if not waits:
            broker.set(FETCH, None)
            broker.pass_ms(1)
        request = messages.FetchRequest(session_id=first.session_id, session_epoch=epoch, **empty)
        peer.send(request, ApiKey.FETCH, FETCH_VERSION)
        found = peer.fetched()
        assert found.session_id == first.session_id
        assert bool(found.throttle_time_ms) is waits
        assert bool(found.responses) is not waits


def test_followers_are_exempt(tmp_path: Path) -> None:
    """If this fails, a quota of clients takes followers out of the in-sync set."""
    broker = QuotaBroker(tmp_path)
    Peer(broker).produce()
    broker.set(FETCH, 1e-3)
    broker.set(TIME, 1e-3)
    peer = Peer(broker)
    peer.fetch(replica_id=2)
    found = peer.fetched()
    assert found.throttle_time_ms == 0
    assert found.responses
    assert not broker.waits


@pytest.mark.parametrize("is_async", [False, True])
def test_time_of_the_loop_counts(tmp_path: Path, is_async: bool) -> None:
    """If this fails, a client with expensive requests slows all others."""

    def handle(ctx: Any, request: Any) -> Any:
        broker.memory.clock.advance_ms(500)
        return messages.ListGroupsResponse()

    async def handle_later(ctx: Any, request: Any) -> Any:
        return handle(ctx, request)

    broker = QuotaBroker(tmp_path, handle_later if is_async else handle)
    broker.set(TIME, 10.0)
    peer = Peer(broker)
    waits = []
    for _ in range(6):
        peer.ask()
        waits.append(peer.handled())
        if waits[-1]:
            break
    # Ten percent of eleven seconds are used up by three requests; a wait is at most one window.
    assert waits[:2] == [0, 0]
    assert 0 < waits[-1] <= 1000
    peer.ask()
    assert not peer.link.sent
    broker.pass_ms(waits[-1])
    assert peer.handled() > 0
    assert set(broker.waits) == {TIME}


def test_a_wait_that_a_handler_found_is_kept(tmp_path: Path) -> None:
    """If this fails, a client beyond its mutation quota is not throttled. Other clients may get the same response
    object.
    """
    shared = messages.ListGroupsResponse(throttle_time_ms=700)
    broker = QuotaBroker(tmp_path, lambda ctx, request: shared)
    broker.set("controller_mutation_rate", 1.0)
    peer = Peer(broker)
    peer.ask()
    assert peer.handled() == 700
    peer.ask()
    assert not peer.link.sent
    assert shared.throttle_time_ms == 700


def test_quotas_change_for_open_connections(tmp_path: Path) -> None:
    """If this fails, an operator's change counts only for clients that connect later."""
    broker = QuotaBroker(tmp_path)
    assert broker.memory.core.quotas is None
    peer = Peer(broker)
    peer.produce()
    broker.set(PRODUCE, 1e-3)
    peer.produce()
    broker.pass_ms(1)
    broker.set(PRODUCE, 1e9)
    peer.produce()
    broker.set(PRODUCE, 1e-3, client_id="m")
    broker.set(PRODUCE, None)
    peer.produce()
    broker.pass_ms(1)
    broker.set(PRODUCE, None, client_id="m")
    peer.produce()
    assert [wait > 0 for wait in peer.produced()] == [False, True, False, True, False]
    assert broker.memory.core.quotas is None
    assert not list(broker.quotas.meters())


def test_the_end_of_a_connection_that_waits(tmp_path: Path) -> None:
    """If this fails, a throttle time of hours keeps the memory of clients that have left, or a clean shutdown waits for
    it.
    """
    broker = QuotaBroker(tmp_path)
    broker.set(PRODUCE, 1e-3)
    peer, other = Peer(broker), Peer(broker)
    for each in (peer, other):
        each.produce(times=2)
        assert len(each.produced()) == 1
    peer.link.ended = True
    peer.connection.close()
    broker.memory.core.stop_reading()
    broker.memory.loop.run()
    assert len(other.produced()) == 1
    assert other.link.is_closed
    assert not [timer for timer in broker.memory.loop.timers if timer.callback is not None]


def test_samples_show_who_uses_a_quota_and_waits(tmp_path: Path) -> None:
    """If this fails, consoles show wrong rates, old throttle times, or no throttled client."""
    broker = QuotaBroker(tmp_path)
    read = QuotaSamples(broker.quotas)

    def sample() -> Sample:
        found = Sample()
        asyncio.run(read.read(found, int(broker.memory.clock.monotonic() * 1000)))
        return found

    assert sample() == Sample()
    broker.set(PRODUCE, 1000.0)
    Peer(broker).produce()
    found = sample()
    (use,) = found.quotas
    assert (use.key, use.user, use.client_id, use.limit, use.waits) == (PRODUCE, "ANONYMOUS", "", 1000.0, 1)
    # SIZE bytes and the request's own, over the ten full windows that count.
    assert SIZE / 10 < use.rate < SIZE / 9
    assert (found.throttles, found.throttled_ms) == (1, use.waited_ms)
    assert use.waited_ms == broker.waits[PRODUCE][1] > 0
    # The rate still counts, and no request was throttled since.
    found = sample()
    assert [(each.rate, each.waits, each.waited_ms) for each in found.quotas] == [(use.rate, 0, 0)]
    assert found.throttles == found.throttled_ms == 0
    broker.pass_ms(60_000)
    assert sample() == Sample()


def test_a_sample_has_the_quotas_that_matter_most(tmp_path: Path) -> None:
    """If this fails, ten thousand clients with quotas cause ten thousand entries a second, or the throttled client is
    missing.
    """
    broker = QuotaBroker(tmp_path)
    broker.set(PRODUCE, 1000.0)
    now_ms = int(broker.memory.clock.monotonic() * 1000)
    clients = QUOTAS_MAX + 7
    for number in range(clients):
        meter = broker.quotas.produce.of(f"user-{number}", "", now_ms)
        assert meter is not None
        meter.record(100.0 * (number + 1), now_ms)
    found = broker.quotas.produce.of("user-0", "", now_ms)
    assert found is not None
    found.note_wait(5)
    sample = Sample()
    asyncio.run(QuotaSamples(broker.quotas).read(sample, now_ms))
    users = [each.user for each in sample.quotas]
    assert users == ["user-0", *(f"user-{number}" for number in range(clients - 1, 7, -1))]
    assert sample.quotas_left_out == 7
