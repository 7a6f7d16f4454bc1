"""The pages of a process of broker-mirror without the process: a status that a test chooses."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from broker_cy.client.address import Address, parse_address
from broker_cy.client.mirror_status import FlowStatus, MirrorStatus, PartitionState, Restart
from broker_mirror.listener import Listener

LOOP_PROBLEM = "B->A copies the topic plans back: it is not copied"


def flow_of(**changed: object) -> FlowStatus:
    """Return a flow A->B with a partition that is behind, one that waits, a loop, a circle and a restart."""
    now_ms = int(time.time() * 1000)
    given: dict[str, object] = {
        "source": "A",
        "target": "B",
        "kind": "copy",
        "state": "running",
        "share": "1 of 1",
        "leads": True,
        "partitions": (
            PartitionState("orders", 0, "A.orders", 90, 100, 90, 10, 2_500, 90, 9_000, None, False),
            PartitionState("orders", 1, "A.orders", 40, 40, 40, 0, 0, 40, 4_000, None, False),
            PartitionState("taxes", 3, "A.taxes", 5, 9, 5, 4, None, 5, 500, "the target has no partition 3", True),
        ),
        "problems": {"refresh.topics: plans": LOOP_PROBLEM, "sync.topic.acls": "the source denies access"},
        "loops": ("B.invoices", "plans"),
        "groups": {"billing": 2},
        "records_per_s": 1_234.5,
        "bytes_per_s": 1_234_567.0,
        "checkpoint_ms": 12,
        "checkpoint_at_ms": now_ms,
        "restarts": 1,
        "last_restarts": (Restart(1_700_000_000_000, "the target was away"),),
    }
    return FlowStatus(**{**given, **changed})  # type: ignore[arg-type]


@contextmanager
def serving(*flows: FlowStatus) -> Iterator[Address]:
    """Serve the pages of a process with these flows."""
    ready, done = threading.Event(), threading.Event()
    found: list[Address] = []

    async def serve() -> None:
        async with Listener(Address("127.0.0.1", 0), lambda: MirrorStatus("1.0", flows)) as listener:
            found.append(parse_address(listener.url.removeprefix("http://")))
            ready.set()
            await asyncio.to_thread(done.wait)

    thread = threading.Thread(target=lambda: asyncio.run(serve()), daemon=True)
    thread.start()
    try:
        assert ready.wait(30.0)
        yield found[0]
    finally:
        done.set()
        thread.join(30.0)
