"""The question for the status of a process of broker-mirror, and answers that are none."""

from __future__ import annotations

import asyncio
import json

import pytest

from broker_cy.client.address import Address
from broker_cy.client.errors import ClientError, Failure
from broker_cy.client.mirror_status import ask, status_of
from tests.support.mirror_page import flow_of, serving

ANSWER_S = 30.0


def test_a_process_is_asked() -> None:
    """If this fails, consoles and `broker-mirror status` do not see a running process."""
    flow = flow_of()
    with serving(flow) as address:
        found = asyncio.run(ask(address, ANSWER_S))
    assert found.flows == (flow,)
    assert flow.circles == {"plans": "refresh.topics: plans"}


def test_fields_of_other_versions_are_no_fault() -> None:
    """If this fails, a console of one release shows nothing of a mirror of another."""
    with serving(flow_of()) as address:
        found = json.loads(asyncio.run(ask(address, ANSWER_S)).to_json())
    found["flows"][0]["new"] = 1
    found["flows"][0]["partitions"][0]["new"] = 1
    del found["flows"][0]["checkpoint_at_ms"]
    assert status_of(found).flows[0].checkpoint_at_ms is None
    assert len(status_of(found).flows[0].partitions) == 3


@pytest.mark.parametrize(
    ("body", "failure"),
    [
        (b'{"version": "1"}', Failure.MALFORMED),
        (b"[]", Failure.MALFORMED),
        (b"no JSON", Failure.MALFORMED),
        (b'{"version": "1", "flows": [{}]}', Failure.MALFORMED),
        (None, Failure.UNREACHABLE),
    ],
)
def test_other_answers_are_told_apart(body: bytes | None, failure: Failure) -> None:
    """If this fails, a wrong address looks like a mirror without flows."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        if body is not None:
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))
            await writer.drain()
        writer.close()

    async def run() -> None:
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        async with server:
            with pytest.raises(ClientError) as raised:
                await ask(Address(*server.sockets[0].getsockname()), ANSWER_S)
        assert raised.value.failure is failure

    asyncio.run(run())
