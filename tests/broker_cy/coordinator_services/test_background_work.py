"""Work of a coordinator in the background: its result returns as an operation."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from broker_cy.coordinator.group_machine import GroupMachine
from broker_cy.coordinator.offset_record import encode_offset_key, encode_offset_value
from broker_cy.coordinator.step import GroupStep, Record
from broker_cy.core.errors import ErrorCode
from broker_cy.core.step import Now, Work, WorkFailed
from tests.broker_cy.coordinator_services.group_broker import GROUP, GroupBroker, run


def double(number: int) -> int:
    if number < 0:
        raise ValueError("too small")
    return 2 * number


def begin(machine: GroupMachine, step: GroupStep, number: int, done: asyncio.Future[Any], token: Any, now: Now) -> None:
    step.work.append(Work(double, (number,), end, (done,)))
    step.reply(token, "begun")


def begin_with_records(
    machine: GroupMachine, step: GroupStep, size: int, done: asyncio.Future[Any], token: Any, now: Now
) -> None:
    """The same, with a record of this size."""
    value = encode_offset_value(1, -1, "m" * size, now.wall_ms, -1, bytes(16))
    machine.append(step, [Record(encode_offset_key(GROUP, "t", 0), value)])
    step.work.append(Work(double, (21,), end, (done,)))
    step.reply_when_written(token, ErrorCode.NONE, ErrorCode)


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


def test_work_begins_although_the_records_are_refused(tmp_path: Path) -> None:
    """If this fails, a consumer group waits for ever for the topics of its regular expression, because the records of
    one heartbeat were larger than a batch.
    """

    async def work() -> None:
        async with GroupBroker(tmp_path) as broker:
            await broker.prepare("t")
            runtime = broker.runtime()
            runtime._max_batch_bytes = lambda: 1000
            done: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
            code = await runtime.run(begin_with_records, 2000, done)
            assert code is ErrorCode.UNKNOWN_SERVER_ERROR
            assert await done == 42
            assert runtime.machine.offsets.count == 0

    run(work)
