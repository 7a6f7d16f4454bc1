"""The admin core if a broker is unavailable, slow or old, or if the address is not that of a broker."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from bench.launch.nodes import free_ports
from broker_cy.admin import AdminClient, ClientError, Failure
from broker_cy.admin.address import Address, parse_address, parse_addresses
from broker_cy.admin.metadata import TopicPartition
from broker_cy.admin.records import Start
from broker_cy.admin.topics import NewTopic
from broker_cy.client import address
from broker_cy.wire import frame
from broker_cy.wire.api_keys import ApiKey
from broker_cy.wire.records import Record
from tests.broker_cy.admin.conftest import with_client
from tests.support.broker import QUICK, BrokerProcess
from tests.support.cutting_proxy import CuttingProxy
from tests.support.old_broker import OldBroker
from tests.support.proxy import behind


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("127.0.0.1:9092", Address("127.0.0.1", 9092)),
        (" broker.example ", Address("broker.example", 9092)),
        ("[::1]:19092", Address("::1", 19092)),
        ("[::1]", Address("::1", 9092)),
    ],
)
def test_addresses(text: str, expected: Address) -> None:
    """If this fails, an address that Kafka's tools accept is not understood."""
    assert parse_address(text) == expected
    assert parse_address(str(expected)) == expected


@pytest.mark.parametrize("text", ["", ":9092", "host:", "host:port", "host:0", "host:65536", "::1", "a b:1", "h:²"])
def test_bad_addresses_are_refused(text: str) -> None:
    """If this fails, a mistyped address is tried for 30 s, or confused with another one."""
    with pytest.raises(ClientError) as raised:
        parse_addresses(f"ok:1,{text}")
    assert raised.value.failure is Failure.INVALID
    assert repr(text) in raised.value.reason


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (":9404", Address("", 9404)),
        ("[::]:9404", Address("::", 9404)),
        ("::1:9404", Address("::1", 9404)),
        ("broker.example:0", Address("broker.example", 0)),
    ],
)
def test_addresses_of_listeners(text: str, expected: Address) -> None:
    """If this fails, brokercy.metrics.listener loses a form that Kafka's listeners have, or a topic its segments."""
    assert address.parse_address(text, needs_port=True, port_min=0, is_listener=True) == expected


@pytest.mark.parametrize("text", ["", "9404", ":", "h:", "h:x", "h:-1", "h:65536", "[::1]", "a b:1", "h:²"])
def test_bad_addresses_of_listeners_are_refused(text: str) -> None:
    """If this fails, the metrics are served at an address that the operator did not write."""
    with pytest.raises(ValueError, match=re.escape(repr(text))):
        address.parse_address(text, needs_port=True, port_min=0, is_listener=True)


def test_a_wrong_address_is_reported_at_once() -> None:
    """If this fails, a user who mistypes the port waits for the deadline, and sees a timeout."""
    (port,) = free_ports(1)
    with pytest.raises(ClientError) as raised:
        with_client(f"127.0.0.1:{port}", lambda client: client.topics.list_all(), timeout_s=120)
    error = raised.value
    assert (error.failure, error.broker, error.api) == (Failure.UNREACHABLE, f"127.0.0.1:{port}", "connect")
    assert "no process listens there" in str(error)


def test_the_second_bootstrap_address_helps(ours: BrokerProcess) -> None:
    """If this fails, one unavailable broker hides the whole cluster."""
    (port,) = free_ports(1)
    described = with_client(f"127.0.0.1:{port},{ours.bootstrap}", lambda client: client.cluster.describe())
    assert described.brokers[0].port == ours.port


async def serve(answer: Callable[[bytes], bytes | None]) -> tuple[asyncio.Server, str]:
    """A server that answers every request with the response of `answer`; None: no response."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            reply = answer(data)
            if reply is not None:
                writer.write(reply)
        writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    return server, f"127.0.0.1:{server.sockets[0].getsockname()[1]}"


@pytest.mark.parametrize(
    ("answer", "failure", "reason"),
    [
        (lambda data: b"HTTP/1.1 400 Bad Request\r\n\r\n", Failure.UNREACHABLE, "is this a Kafka listener"),
        (lambda data: b"\0\0\0\x05\x7f\0\0\0\0", Failure.UNREACHABLE, "an answer to another request"),
        (lambda data: b"\0\0\0\x08" + data[8:12] + b"\0\0\0\x7f", Failure.MALFORMED, "malformed"),
        (lambda data: b"\0\0\0\x06" + data[8:12] + b"\0\x23", Failure.MALFORMED, "malformed"),
        (lambda data: None, Failure.TIMED_OUT, "within 0.3 s"),
    ],
)
def test_what_is_no_broker_is_reported(answer: Callable[[bytes], bytes | None], failure: Failure, reason: str) -> None:
    """If this fails, another service on the port hangs the console, or ends it with a traceback."""

    async def job() -> ClientError:
        server, bootstrap = await serve(answer)
        try:
            # Only where no answer comes is the deadline reached; any other answer must come before it.
            async with AdminClient(bootstrap, timeout_s=0.3 if failure is Failure.TIMED_OUT else 30) as client:
                with pytest.raises(ClientError) as raised:
                    await client.topics.list_all()
                return raised.value
        finally:
            server.close()

    error = asyncio.run(job())
    assert error.failure is failure
    assert reason in error.reason
    assert error.broker.startswith("127.0.0.1:")


def test_a_broker_that_restarts_is_found_again(tmp_path: Path) -> None:
    """If this fails, a console that keeps running shows errors forever after a restart, or a call fails that could have
    waited.
    """
    broker = BrokerProcess(tmp_path, QUICK).start()

    async def job() -> None:
        async with AdminClient(broker.bootstrap, timeout_s=60) as client:
            (await client.topics.create([NewTopic("kept", 1, 1)])).whole()
            broker.kill()
            with pytest.raises(ClientError) as raised:
                await client.with_timeout(0.4).cluster.describe()
            assert raised.value.failure in (Failure.UNREACHABLE, Failure.TIMED_OUT)
            # Requested while the broker is unavailable, answered once it is back.
            waiting = asyncio.create_task(client.offsets.latest([TopicPartition("kept", 0)]))
            await asyncio.to_thread(broker.restart)
            assert (await waiting).whole() == {TopicPartition("kept", 0): 0}

    try:
        asyncio.run(job())
    finally:
        broker.close()


# The oldest versions that broker-cy supports, except Metadata 4, the first that can be sent without creating topics.
OLDEST = {
    key: (frame.api_versions(key)[0],) * 2
    for key in (
        ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.LIST_OFFSETS, ApiKey.OFFSET_COMMIT, ApiKey.FIND_COORDINATOR,
        ApiKey.DESCRIBE_GROUPS, ApiKey.LIST_GROUPS, ApiKey.CREATE_TOPICS, ApiKey.DELETE_TOPICS, ApiKey.DELETE_RECORDS,
        ApiKey.DESCRIBE_CONFIGS, ApiKey.CREATE_PARTITIONS, ApiKey.DELETE_GROUPS, ApiKey.INCREMENTAL_ALTER_CONFIGS,
        ApiKey.OFFSET_DELETE, ApiKey.DESCRIBE_CLUSTER, ApiKey.INIT_PRODUCER_ID, ApiKey.DESCRIBE_LOG_DIRS,
    )
} | {ApiKey.METADATA: (4, 4), ApiKey.OFFSET_FETCH: (2, 2)}  # fmt: skip


def test_an_old_broker_is_spoken_to_in_its_versions(tmp_path: Path) -> None:
    """If this fails, clusters that were not upgraded yet cannot be managed."""
    old = OldBroker({int(key): each for key, each in OLDEST.items()})
    broker = behind(old, tmp_path)

    async def job() -> None:
        async with old, AdminClient(old.bootstrap, timeout_s=60) as client:
            (await client.topics.create([NewTopic("old", 2, 1)])).whole()
            key = TopicPartition("old", 1)
            assert (await client.offsets.latest([key])).whole() == {key: 0}
            assert (await client.group_offsets.alter("g", {key: 3})).whole() == {key: 3}
            fetched = (await client.group_offsets.fetch(["g", "h"])).whole()
            assert {each: committed.offset for each, committed in fetched["g"].items()} == {key: 3}
            assert [each.group_id for each in await client.groups.listed()] == ["g"]
            described = await client.groups.describe(["g", "h"])
            assert described.found["g"].state == "Empty"
            assert list(described.failed) == ["h"]
            assert (await client.cluster.describe()).brokers[0].port == old.port
            with pytest.raises(ClientError) as raised:
                await client.groups.listed(types=["classic"])
            assert raised.value.failure is Failure.UNSUPPORTED
            assert "version 5 to 5 is needed, and the broker supports 0 to 0" in raised.value.reason
            (await client.topics.delete(["old"])).whole()
            assert old.seen[ApiKey.OFFSET_FETCH, 2] == 2
            assert old.seen[ApiKey.API_VERSIONS, 0] >= 1

    try:
        asyncio.run(job())
    finally:
        broker.close()


def test_a_silent_broker_does_not_outlive_the_deadline(tmp_path: Path) -> None:
    """If this fails, a broker that hangs also hangs the console, or later requests get the responses to old ones."""
    slow = OldBroker({int(key): frame.api_versions(key) for key in OLDEST})
    broker = behind(slow, tmp_path)

    async def job() -> None:
        async with slow, AdminClient(slow.bootstrap) as client:
            assert all(topic.is_own for topic in await client.topics.list_all())
            slow.silent = True
            with pytest.raises(ClientError) as raised:
                await client.with_timeout(0.3).topics.list_all()
            assert raised.value.failure is Failure.TIMED_OUT
            assert (raised.value.api, raised.value.broker) == ("Metadata", f"1 (127.0.0.1:{slow.port})")
            slow.silent = False
            assert all(topic.is_own for topic in await client.topics.list_all())

    try:
        asyncio.run(job())
    finally:
        broker.close()


def test_many_calls_share_one_connection(tmp_path: Path) -> None:
    """If this fails, every call opens a separate connection, or responses are given to the wrong caller."""
    proxy = OldBroker({int(key): frame.api_versions(key) for key in OLDEST})
    broker = behind(proxy, tmp_path)

    async def job() -> None:
        async with proxy, AdminClient(proxy.bootstrap) as client:
            names = [f"topic-{index}" for index in range(40)]
            (await client.topics.create([NewTopic(each, 1, 1) for each in names])).whole()
            described = await asyncio.gather(*(client.topics.describe([each]) for each in names))
            assert [next(iter(each.whole())) for each in described] == names
            # A task that gives up its request does not affect those of others.
            given_up = asyncio.create_task(client.topics.describe(["topic-0"]))
            kept = asyncio.create_task(client.topics.describe(["topic-1"]))
            await asyncio.sleep(0)
            given_up.cancel()
            assert list((await kept).whole()) == ["topic-1"]
            # Twice: in our newest version, and in the version that the first response names.
            assert sum(count for (key, _), count in proxy.seen.items() if key == ApiKey.API_VERSIONS) == 2

    try:
        asyncio.run(job())
    finally:
        broker.close()


def test_a_lost_answer_makes_no_duplicate(tmp_path: Path) -> None:
    """If this fails, a connection that breaks after the broker has stored a batch stores it twice, or loses it."""
    proxy = CuttingProxy()
    broker = BrokerProcess(tmp_path, {**QUICK, "advertised.listeners": f"PLAINTEXT://127.0.0.1:{proxy.port}"}).start()
    proxy.connect_to(broker.host, broker.port)
    key = TopicPartition("cut", 0)

    async def job() -> None:
        async with AdminClient(f"127.0.0.1:{proxy.port}", timeout_s=60) as client:
            (await client.topics.create([NewTopic("cut", 1, 1)])).whole()
            producer = client.records.producer()
            for number in range(30):
                if number % 5 == 2:
                    await asyncio.to_thread(proxy.cut_answers_after, 1)
                await producer.send_batch(key, [Record(value=b"%d" % number)])
            # Without acknowledgements of all replicas, duplicates are not detected: then it is not sent again.
            await asyncio.to_thread(proxy.cut_answers_after, 1)
            with pytest.raises(ClientError) as raised:
                await client.records.producer(acks=1).send_batch(key, [Record(value=b"once")])
            assert (raised.value.failure, raised.value.api) == (Failure.UNREACHABLE, "Produce")
            values: list[bytes | None] = []
            span = (await client.records.spans([key], Start.earliest()))[key]
            async with client.records.reader({key: 0}, ends={key: span.end}) as reader:
                async for chunk in reader:
                    values += [record.value for record in chunk.records]
            assert values == [b"%d" % number for number in range(30)] + [b"once"]

    try:
        asyncio.run(job())
        assert proxy.cuts >= 7
    finally:
        broker.close()
        proxy.close()


def test_a_reader_outlives_a_restart(tmp_path: Path) -> None:
    """If this fails, a live view ends when the broker restarts, or continues with a gap."""
    broker = BrokerProcess(tmp_path, QUICK).start()
    key = TopicPartition("live", 0)

    async def job() -> None:
        async with AdminClient(broker.bootstrap, timeout_s=60) as client:
            (await client.topics.create([NewTopic("live", 1, 1)])).whole()
            await client.records.producer().send_batch(key, [Record(value=b"before")])
            values: list[bytes | None] = []
            async with client.records.reader({key: 0}) as reader:
                async for chunk in reader:
                    values += [record.value for record in chunk.records]
                    if len(values) == 1:
                        broker.stop()
                        await asyncio.to_thread(broker.restart)
                        await client.records.producer().send_batch(key, [Record(value=b"after")])
                    if len(values) == 2:
                        break
            assert values == [b"before", b"after"]

    try:
        asyncio.run(job())
    finally:
        broker.close()
