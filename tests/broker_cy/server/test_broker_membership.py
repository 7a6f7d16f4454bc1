"""A broker as a member of its cluster: what it leaves behind when it stops."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from broker_cy.metadata.image import MetadataImage
from broker_cy.server.metadata.broker_membership import BrokerMembership
from tests.broker_cy.server.metadata_broker import MetadataBroker, run


class Silent:
    """A controller that never answers."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.cancelled: list[str] = []

    async def run(self, operation: Any, request: Any, *_: Any) -> Any:
        self.asked.append(type(request).__name__)
        try:
            await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            self.cancelled.append(type(request).__name__)
            raise


@pytest.mark.parametrize("beats", [True, False])
def test_a_stop_ends_reports_and_heartbeats(beats: bool) -> None:
    """If this fails, a broker that stops while it reports the end of another shard leaves a task behind, whose
    connections are gone.
    """

    async def work() -> None:
        controller = Silent()
        config = MetadataBroker(Path("/nowhere")).config
        loop = asyncio.get_running_loop()
        membership = BrokerMembership(config, controller, loop, "id", UUID(int=1), MetadataImage, dict)
        if beats:
            membership.run()
        membership.report_end(2, 5)
        await asyncio.sleep(0)
        expected = ["BrokerHeartbeatRequest"] * (2 if beats else 1)
        assert controller.asked == expected
        await membership.stop()
        assert controller.cancelled == expected
        assert asyncio.all_tasks() == {asyncio.current_task()}

    run(work)
