"""The worker threads of a broker: no disk waits for another one."""

from __future__ import annotations

import asyncio
import threading

from broker_cy.network import seams
from broker_cy.server.worker_pools import BrokerPools

# Only a test that fails waits so long.
PATIENCE_S = 30.0


def test_a_failed_disk_is_noticed_while_another_one_hangs() -> None:
    """If this fails, a broker stays the leader of the partitions of a dead disk as long as another disk hangs."""
    answers = threading.Event()

    async def check() -> None:
        loop = asyncio.get_running_loop()
        pools = BrokerPools(seams.of_the_machine(loop), ["/hung", "/dead"])
        checked = asyncio.Event()
        pools.disk_jobs.run(answers.wait, lambda result, error: None)
        pools.disk_jobs.run(lambda: None, lambda result, error: checked.set())
        try:
            await asyncio.wait_for(checked.wait(), PATIENCE_S)
        finally:
            answers.set()
            pools.stop()

    asyncio.run(check())
