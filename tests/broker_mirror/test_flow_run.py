"""The clients of a run of a flow."""

from __future__ import annotations

import asyncio

from broker_mirror.config import parse_config
from broker_mirror.flow_run import FlowRun
from broker_mirror.flows import flows_of
from broker_mirror.merged import Role, Side

FILE = {
    "clusters": "A,B",
    "A.bootstrap.servers": "127.0.0.1:1",
    "B.bootstrap.servers": "127.0.0.1:2",
    "A->B.enabled": "true",
    "emit.heartbeats.enabled": "false",
    "admin.timeout.ms": "7000",
    "A.consumer.request.timeout.ms": "8000",
    "B.producer.request.timeout.ms": "9000",
}


def test_timeouts_are_those_of_the_file() -> None:
    """If this fails, a timeout of the file has no effect: clients share the one of the client that was made first."""

    async def job() -> None:
        (flow,) = flows_of(parse_config(FILE, "f"))
        run = FlowRun(flow, lambda *_: None)  # type: ignore[arg-type]  # it copies nothing
        roles = ((Side.SOURCE, Role.ADMIN), (Side.SOURCE, Role.CONSUMER), (Side.TARGET, Role.PRODUCER))
        clients = [run.client(*each) for each in roles]
        assert [each.caller.timeout_s for each in clients] == [7.0, 8.0, 9.0]
        assert run.client(Side.SOURCE, Role.ADMIN) is clients[0]
        for each in clients:
            await each.close()

    asyncio.run(job())
