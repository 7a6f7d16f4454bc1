"""The first connection to a cluster that is not there yet."""

from __future__ import annotations

import asyncio
import logging
import ssl
from pathlib import Path

import pytest

from broker_cy.admin import AdminClient, ClientError, Failure
from broker_streams import StreamsBuilder
from broker_streams.hosts.connecting import CONNECTION, connected
from broker_streams.hosts.embedded.host import EmbeddedHost
from broker_streams.hosts.measures import State
from broker_streams.hosts.task_timeout import TaskTimeout
from tests.broker_streams.brokers import SETTINGS
from tests.broker_streams.hosts.test_embedded import WAIT_S, counts, create, running, settings, until, write
from tests.support.broker import BrokerProcess
from tests.support.certificates import Authority

NOWHERE = "127.0.0.1:1"


def test_an_application_starts_before_its_cluster(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """If this fails, an application and its cluster that start together need a supervisor, or a second start."""

    async def job() -> None:
        async with asyncio.timeout(WAIT_S):
            async with AdminClient(own.bootstrap, timeout_s=10) as first:
                await create(first, "early-in", "early-out")
            await asyncio.to_thread(own.kill)
            async with (
                AdminClient(own.bootstrap, timeout_s=10) as client,
                running(client, counts("early"), settings("early")) as host,
            ):
                while f"{CONNECTION} failed and is tried again" not in caplog.text:
                    await asyncio.sleep(0.02)
                assert host.life.state is State.REBALANCING
                await asyncio.to_thread(own.start)
                await write(client, "early-in", "a")
                await until(client, "early-out", [("a", 1)])

    own = BrokerProcess(tmp_path, SETTINGS)
    with caplog.at_level(logging.WARNING, "broker_streams"):
        try:
            own.start()
            asyncio.run(job())
        finally:
            own.close()


def test_an_address_without_a_broker_has_a_bound() -> None:
    """If this fails, an application with a wrong address waits for ever, or ends at once."""
    builder = StreamsBuilder()
    builder.stream("in").to("out")

    async def job() -> None:
        async with asyncio.timeout(WAIT_S), AdminClient(NOWHERE, timeout_s=10) as client:
            host = EmbeddedHost(client, builder.build(), settings("nowhere", task_timeout_ms=10))
            with pytest.raises(
                ClientError, match=r"the first connection .*task\.timeout\.ms is 10: .*127\.0\.0\.1:1"
            ) as failed:
                await host.run()
            assert failed.value.failure is Failure.UNREACHABLE
            # An application that waits can be stopped.
            host = EmbeddedHost(client, builder.build(), settings("nowhere"))
            task = asyncio.create_task(host.run())
            while host.life.state is not State.REBALANCING:
                await asyncio.sleep(0)
            host.stop()
            await task
            assert host.life.state.value == "NOT_RUNNING"

    asyncio.run(job())


def test_a_certificate_that_is_not_trusted_ends_the_wait(tmp_path: Path) -> None:
    """If this fails, an application that can never connect looks for five minutes as if its cluster were away."""
    theirs = Authority("theirs").issue("broker")
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(theirs.write_pem(tmp_path / "broker.pem"))

    async def job() -> None:
        listening = await asyncio.start_server(lambda reader, writer: writer.close(), "127.0.0.1", 0, ssl=server)
        address = f"127.0.0.1:{listening.sockets[0].getsockname()[1]}"
        async with (
            listening,
            asyncio.timeout(WAIT_S),
            AdminClient(address, timeout_s=10, tls=ssl.create_default_context()) as client,
        ):
            with pytest.raises(ClientError, match="certificate"):
                await connected(client, TaskTimeout(60_000), asyncio.Event())

    asyncio.run(job())
