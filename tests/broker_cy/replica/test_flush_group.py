"""The write that ends a turn of the loop: a defect of one part of the broker does not cost the others their write."""

from __future__ import annotations

import asyncio
import uuid
from pathlib import Path
from typing import Any

from broker_cy.core.clock import ManualClock
from broker_cy.replica.flush_group import FlushGroup
from broker_cy.replica.partition import Partition
from broker_cy.storage.log import Log
from broker_cy.storage.log_config import LogConfig
from broker_cy.wire.records import Record, encode_batch

BATCH = encode_batch([Record(0, 1_000, b"k", b"v", [])])


def test_a_stager_that_fails_skips_no_write(tmp_path: Path) -> None:
    """If this fails, an exception in one coordinator leaves the batches of all producers of that turn unwritten, and
    their clients wait for their timeouts.
    """
    reported: list[dict[str, Any]] = []
    failure = ZeroDivisionError("a defect")

    def fails() -> None:
        raise failure

    async def work() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda loop, context: reported.append(context))
        group = FlushGroup(loop, ManualClock())
        led = [
            Partition(
                group,
                "t",
                index,
                uuid.UUID(int=1),
                Log.create(str(tmp_path / f"t-{index}"), "t", index, LogConfig(), 0),
                0,
            )
            for index in range(2)
        ]
        produced = led[0].append_records(BATCH, 0)
        staged: list[asyncio.Future[int]] = []
        led[0].before_flush(fails)
        led[0].before_flush(lambda: staged.append(led[1].append_records(BATCH, 0)))
        async with asyncio.timeout(30):
            assert await produced == 0
            assert await staged[0] == 0
        assert [each.log.written_end_offset for each in led] == [1, 1]
        # The next turn is like any other.
        async with asyncio.timeout(30):
            assert await led[0].append_records(BATCH, 0) == 1

    asyncio.run(work())
    assert [context["exception"] for context in reported] == [failure]
