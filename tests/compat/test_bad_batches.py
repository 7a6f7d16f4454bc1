"""One bad batch gets Kafka's error code for its partition alone."""

from __future__ import annotations

import gzip
import itertools
from collections.abc import Iterator

import pytest

from tests.compat.bad_batches import ACCEPTED, CASES, TOPICS, Case, good
from tests.support.broker import Target, target_is_kafka
from tests.support.raw_wire import Connection, RawBatch, RawRecord, produce
from tests.support.topics import create_topic

UNKNOWN_TOPIC_OR_PARTITION, INVALID_RECORD = 3, 87


@pytest.fixture(scope="module")
def connection(broker: Target) -> Iterator[Connection]:
    """One connection for all cases: a bad batch must not end it."""
    for name, settings in TOPICS.items():
        create_topic(broker.bootstrap, name, 2, settings)
    create_topic(broker.bootstrap, "beside")
    connection = Connection((broker.host, broker.port))
    yield connection
    connection.sock.close()


def log_end_offset(connection: Connection, topic: str) -> int:
    """Return the base offset of the next good batch."""
    return produce(connection, {topic: {0: good()}})[topic, 0].base_offset


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_bad_batch(connection: Connection, case: Case) -> None:
    """If this fails, a broken producer corrupts the log, or makes the good batches in its request fail with the bad
    one.
    """
    answers = produce(connection, {case.topic: {0: case.make()}, "beside": {0: good()}})
    bad, beside = answers[case.topic, 0], answers["beside", 0]
    assert bad.error == case.error, bad
    assert bad.base_offset == -1
    assert tuple(index for index, _ in bad.record_errors) == case.record_errors
    if case.message is not None:
        assert bad.message == case.message
    assert beside.error == (case.error if case.whole_request and target_is_kafka() else 0)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_nothing_of_a_bad_batch_is_kept(connection: Connection, case: Case) -> None:
    """If this fails, offsets are used by batches that were refused."""
    if case.topic == "compacted":
        pytest.skip("the batch that measures the end has no key")
    before = log_end_offset(connection, case.topic)
    produce(connection, {case.topic: {0: case.make()}})
    assert log_end_offset(connection, case.topic) == before + 1


@pytest.mark.parametrize("name", ACCEPTED)
def test_odd_but_accepted(connection: Connection, name: str) -> None:
    """If this fails, a client that works with Kafka is refused."""
    answer = produce(connection, {"plain": {1: ACCEPTED[name]()}})["plain", 1]
    assert (answer.error, answer.record_errors) == (0, [])
    assert answer.base_offset >= 0


def test_batches_that_compress_well_count_as_they_are_sent(connection: Connection) -> None:
    """If this fails, a compressed batch is refused because of its uncompressed size."""
    batch = RawBatch(attributes=1, payload=gzip.compress(RawRecord(value=bytes(5000)).encode(0))).encode()
    assert produce(connection, {"small": {0: batch}})["small", 0].error == 0


def test_partitions_and_topics_that_do_not_exist(connection: Connection) -> None:
    """If this fails, a typing error in one topic name loses the records of the others."""
    answers = produce(
        connection, {"no-such-topic": {0: good()}, "plain": {7: good(), -1: good()}, "beside": {0: good()}}
    )
    assert [answers[key].error for key in (("no-such-topic", 0), ("plain", 7), ("plain", -1))] == [
        UNKNOWN_TOPIC_OR_PARTITION
    ] * 3
    assert answers["beside", 0].error == 0


@pytest.mark.parametrize("version", range(3, 9))
def test_every_plain_version_returns_the_code(connection: Connection, version: int) -> None:
    """If this fails, an old client considers a refused batch written."""
    answers = produce(connection, {"plain": {0: RawBatch(crc=1).encode(), 1: good()}}, version)
    assert (answers["plain", 0].error, answers["plain", 1].error) == (2, 0)


def test_many_bad_batches_in_one_request(connection: Connection) -> None:
    """If this fails, responses are mixed up between the partitions of one request."""
    isolated = [case for case in CASES if not case.whole_request and case.topic == "plain"]
    for first, second in itertools.pairwise(isolated):
        answers = produce(connection, {"plain": {0: first.make(), 1: second.make()}})
        assert (answers["plain", 0].error, answers["plain", 1].error) == (first.error, second.error)


def test_null_records(broker: Target, connection: Connection) -> None:
    """If this fails, a request without records hangs its connection forever, as it does with Apache Kafka 4.3.1."""
    if target_is_kafka():
        pytest.skip("Apache Kafka 4.3.1 never answers: NullPointerException")
    with Connection((broker.host, broker.port)) as other:
        try:
            assert produce(other, {"plain": {0: None}})["plain", 0].error == INVALID_RECORD
        except EOFError:
            pass
    assert produce(connection, {"plain": {0: good()}})["plain", 0].error == 0
