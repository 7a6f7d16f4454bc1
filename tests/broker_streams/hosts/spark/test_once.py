"""`broker-streams run --once` on Spark: what the topics have, then the end."""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker_cy.admin import AdminClient
from broker_cy.admin.topics import NewTopic
from broker_cy.launch.processes import run
from tests.broker_streams.hosts.test_kills import APPLICATION, KEYS, counts, write
from tests.spark_analytics.conftest import quick_jvms
from tests.support import needs
from tests.support.broker import QUICK, BrokerProcess

pytestmark = [pytest.mark.full, pytest.mark.timeout(320)]
WAIT_S = 240.0
RECORDS = 300


@pytest.fixture(autouse=True)
def quick() -> Iterator[None]:
    needs.require(needs.spark())
    with quick_jvms():
        yield


def test_once_processes_what_the_topics_have_and_ends(tmp_path: Path) -> None:
    """If this fails, a job of a schedule never ends, or leaves records in a repartition topic."""
    file = tmp_path / "app.py"
    file.write_text(APPLICATION)

    async def job(bootstrap: str) -> None:
        command = [sys.executable, "-m", "broker_streams", "run", str(file), "-b", bootstrap, "--once"]
        async with AdminClient(bootstrap, timeout_s=WAIT_S) as client:
            (await client.topics.create([NewTopic(name, 2, 1) for name in ("in", "out")])).whole()
            for first in (0, RECORDS):
                await write(client, first, RECORDS)
                state = ["-X", f"state.dir={tmp_path / 'state'}"]
                done = await asyncio.to_thread(run, [*command, *state], timeout_s=WAIT_S)
                begun, ended = done.stdout.decode().splitlines()
                assert begun == "broker-streams: runs counts on Spark (exactly_once_v2)"
                assert re.fullmatch(r"broker-streams: counts has processed \d+ records in \d+ batch(es)?", ended)
                written = first + RECORDS
                expected = {f"w{key}": list(range(1, len(range(key, written, KEYS)) + 1)) for key in range(KEYS)}
                assert await counts(client) == expected

    # Records with timestamps of 1970 stay.
    broker = BrokerProcess(tmp_path / "broker", {**QUICK, "log.retention.ms": "-1"})
    try:
        asyncio.run(job(broker.start().bootstrap))
    finally:
        broker.close()
