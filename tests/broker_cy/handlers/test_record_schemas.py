"""Produce to topics that check the schemas of records: what is stored, what is refused, and what waits."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from broker_cy.core.errors import ErrorCode
from broker_cy.record_schemas.checks import RecordSchemas, Strategy
from broker_cy.record_schemas.known import KnownSchemas, SchemaVersion, VersionGone
from broker_cy.server.jobs import LoopJobs
from broker_cy.wire import messages
from broker_cy.wire.compression import Codec
from broker_cy.wire.frame import ApiKey
from broker_cy.wire.records import Record, encode_batch
from broker_cy.wire.schema_header import id_header
from tests.broker_cy.connections.harness import CoreHarness, RawClient, produce_request, produce_to
from tests.broker_cy.handlers.test_transactional_produce import PRODUCER, Verifier

VERSION = 9
KNOWN, UNKNOWN = 7, 8


class Follower:
    """Answers when the test says so, on the loop of the broker."""

    def __init__(self, core: CoreHarness) -> None:
        self._core = core
        self.known = KnownSchemas()
        self.known.apply(SchemaVersion("t-value", 1, KNOWN, None, None))
        self.asked: list[asyncio.Future[bool]] = []

    def up_to_date(self) -> Any:
        found: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self.asked.append(found)
        return found

    def answer(self, *, is_current: bool) -> None:
        """Answer the requests that wait, once there is one."""
        self._core.wait_until(lambda: bool(self.asked))

        def settle() -> None:
            for each in self.asked:
                each.set_result(is_current)
            self.asked.clear()

        self._core.on_loop(settle)


@pytest.fixture
def verifier() -> Verifier:
    return Verifier()


@pytest.fixture
def core(verifier: Verifier) -> Iterator[CoreHarness]:
    harness = CoreHarness(verifier=verifier)
    harness.topic("t")
    harness.topic("free")
    try:
        yield harness
    finally:
        harness.close()


@pytest.fixture
def follower(core: CoreHarness) -> Follower:
    """The topic `t` checks its values from here on."""
    found = Follower(core)
    check(core, RecordSchemas("t", None, Strategy.TOPIC_NAME, found))
    return found


def check(core: CoreHarness, schemas: RecordSchemas | None) -> None:
    partition = core.table.get("t", 0)
    assert partition is not None
    core.on_loop(lambda: partition.check_schemas(schemas))


def batch(*schemas: int | None, codec: Codec | None = None, **more: Any) -> bytes:
    values = [b"plain" if each is None else id_header(each) + b"payload" for each in schemas]
    return encode_batch([Record(value=each) for each in values], codec=codec, **more)


def end_of(core: CoreHarness, topic: str = "t") -> int:
    partition = core.table.get(topic, 0)
    assert partition is not None
    end: int = core.on_loop(lambda: partition.log.log_end_offset)
    return end


def send(client: RawClient, topic: str, records: bytes, **more: Any) -> None:
    client.send(client.encode(produce_request(topic, 0, records, **more), ApiKey.PRODUCE, VERSION))


def answer(client: RawClient) -> Any:
    _, response = client.receive(ApiKey.PRODUCE, VERSION, messages.ProduceResponse)
    return response.responses[0].partition_responses[0]


@pytest.mark.parametrize("codec", [None, Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
def test_records_are_stored_if_their_schema_is_known(
    core: CoreHarness, follower: Follower, codec: Codec | None
) -> None:
    """If this fails, a checked topic takes no records of some codec, or any."""
    client = core.client()
    stored = produce_to(client, "t", batch(KNOWN, KNOWN, codec=codec))
    assert (stored.error_code, stored.base_offset) == (0, 0)
    assert end_of(core) == 2
    send(client, "t", batch(KNOWN, UNKNOWN, None, codec=codec))
    follower.answer(is_current=True)
    refused = answer(client)
    assert refused.error_code == ErrorCode.INVALID_RECORD
    assert [(each.batch_index, each.batch_index_error_message) for each in refused.record_errors] == [
        (1, "Record 1 for t-0: the value has schema id 8, which subject t-value does not have"),
        (2, "Record 2 for t-0: the value names no schema; one of subject t-value is required"),
    ]
    assert "due to 2 record errors in total" in refused.error_message
    assert end_of(core) == 2


def test_records_without_a_schema_do_not_wait(core: CoreHarness, follower: Follower) -> None:
    """If this fails, each plain record reads the topic of the registry."""
    assert produce_to(core.client(), "t", batch(None)).error_code == ErrorCode.INVALID_RECORD
    assert not follower.asked


def test_a_request_waits_for_a_schema_that_was_just_registered(core: CoreHarness, follower: Follower) -> None:
    """If this fails, the first records with a new schema are lost, or other clients wait with them."""
    client, other = core.client(), core.client()
    send(client, "t", batch(UNKNOWN))
    core.wait_until(lambda: bool(follower.asked))
    assert produce_to(other, "t", batch(KNOWN)).error_code == 0
    assert produce_to(other, "free", batch(None)).error_code == 0
    core.on_loop(lambda: follower.known.apply(SchemaVersion("t-value", 2, UNKNOWN, None, None)))
    follower.answer(is_current=True)
    stored = answer(client)
    assert (stored.error_code, stored.base_offset) == (0, 1)


def test_a_request_fails_for_now_if_the_topic_cannot_be_read(core: CoreHarness, follower: Follower) -> None:
    """If this fails, records with a registered schema are refused for good while the registry's topic has no leader."""
    client = core.client()
    send(client, "t", batch(UNKNOWN))
    follower.answer(is_current=False)
    refused = answer(client)
    assert refused.error_code == ErrorCode.NOT_ENOUGH_REPLICAS
    assert "could not be found out in time" in refused.error_message
    assert not refused.record_errors
    assert end_of(core) == 0
    assert produce_to(client, "t", batch(KNOWN)).error_code == 0


def test_other_partitions_of_the_request_are_stored(core: CoreHarness, follower: Follower) -> None:
    """If this fails, one refused batch loses those of other topics in its request."""
    client = core.client()
    request = produce_request("t", 0, batch(UNKNOWN))
    request.topic_data += produce_request("free", 0, batch(None)).topic_data
    client.send(client.encode(request, ApiKey.PRODUCE, VERSION))
    follower.answer(is_current=True)
    _, response = client.receive(ApiKey.PRODUCE, VERSION, messages.ProduceResponse)
    codes = {topic.name: topic.partition_responses[0].error_code for topic in response.responses}
    assert codes == {"t": ErrorCode.INVALID_RECORD, "free": 0}
    assert (end_of(core), end_of(core, "free")) == (0, 1)


def test_large_batches_are_checked_by_a_worker(core: CoreHarness, follower: Follower) -> None:
    """If this fails, a batch of a megabyte of small records is stored unchecked, or stops the loop."""
    client = core.client()
    with ThreadPoolExecutor(1) as pool:
        core.core.check_jobs = LoopJobs(core.loop, pool)
        values = [Record(value=id_header(KNOWN) + bytes(1 << 20))] * 5
        assert produce_to(client, "t", encode_batch(values, codec=Codec.ZSTD)).error_code == 0
        send(client, "t", encode_batch([*values, Record(value=id_header(UNKNOWN))], codec=Codec.ZSTD))
        follower.answer(is_current=True)
        assert answer(client).error_code == ErrorCode.INVALID_RECORD
    assert end_of(core) == 5


def test_deleted_schemas_are_refused(core: CoreHarness, follower: Follower) -> None:
    """If this fails, producers go on with a schema that was deleted."""
    client = core.client()
    core.on_loop(lambda: follower.known.apply(VersionGone("t-value", 1)))
    send(client, "t", batch(KNOWN))
    follower.answer(is_current=True)
    assert answer(client).error_code == ErrorCode.INVALID_RECORD


def test_transactional_batches_are_checked(core: CoreHarness, follower: Follower, verifier: Verifier) -> None:
    """If this fails, producers with transactions store records with any schema, or none at all."""
    client = core.client()
    fields: dict[str, Any] = {"producer_id": PRODUCER, "producer_epoch": 0, "transactional": True}
    request = produce_request("t", 0, batch(KNOWN, base_sequence=0, **fields))
    request.transactional_id = "tx"
    client.send(client.encode(request, ApiKey.PRODUCE, VERSION))
    assert answer(client).error_code == 0
    request = produce_request("t", 0, batch(UNKNOWN, base_sequence=1, **fields))
    request.transactional_id = "tx"
    client.send(client.encode(request, ApiKey.PRODUCE, VERSION))
    follower.answer(is_current=True)
    assert answer(client).error_code == ErrorCode.INVALID_RECORD
    assert len(verifier.calls) == 1
    assert end_of(core) == 1


def test_without_acks_the_connection_ends(core: CoreHarness, follower: Follower) -> None:
    """If this fails, a producer that wants no answer does not learn that its records are refused."""
    client = core.client()
    send(client, "t", batch(None), acks=0)
    assert client.is_closed()
    assert end_of(core) == 0


def test_checks_can_be_switched_off(core: CoreHarness, follower: Follower) -> None:
    """If this fails, a topic whose check was switched off still refuses records."""
    client = core.client()
    assert produce_to(client, "t", batch(None)).error_code == ErrorCode.INVALID_RECORD
    check(core, None)
    assert produce_to(client, "t", batch(None)).error_code == 0
