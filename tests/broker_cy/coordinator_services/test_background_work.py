"""Work of a coordinator in the background: its result returns as an operation."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from broker_cy.coordinator.group_machine import GroupMachine
from broker_cy.coordinator.step import GroupStep
from broker_cy.core.step import Now, Work, WorkFailed
from tests.broker_cy.coordinator_services.group_broker import GroupBroker, run


def double(number: int) -> int:
    if number < 0:
        raise ValueError("too small")
    return 2 * number


def begin(machine: GroupMachine, step: GroupStep, number: int, done: asyncio.Future[Any], token: Any, now: Now) -> None:
    step.work.append(Work(double, (number,), end, (done,)))
    step.reply(token, "begun")


def end(machine: GroupMachine, step: GroupStep, done: asyncio.Future[Any], result: Any, now: Now) -> None:
    done.set_result(result)


def test_the_result_returns_as_an_operation(tmp_path: Path) -> None:
    """If this fails, regular expressions of consumer groups never match anything."""

    async def work() -> None:
        async with GroupBroker(tmp_path) as broker:
            await broker.prepare("t")
            loop = asyncio.get_running_loop()
            results = [loop.create_future() for _ in range(2)]
            for number, done in zip((21, -1), results, strict=True):
                assert await broker.runtime().run(begin, number, done) == "begun"
            assert await results[0] == 42
            failed = await results[1]
            assert isinstance(failed, WorkFailed)
            assert "too small" in failed.reason

    run(work)
