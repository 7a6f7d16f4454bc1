"""Calls of a coordinator to other services of the broker: they follow records, and their results are operations."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from broker_cy.coordinator.group_machine import GroupMachine
from broker_cy.coordinator.offset_record import encode_offset_key
from broker_cy.coordinator.step import CallFailed, GroupStep, Record, Waiting
from broker_cy.core.errors import ErrorCode, KafkaError
from broker_cy.core.step import Now
from tests.broker_cy.coordinator_services.group_broker import GROUP, GroupBroker, run, until
from tests.broker_cy.coordinator_services.held import HeldPartition, in_flight, lost


class Prepare(NamedTuple):
    """A request to the service of these tests."""

    name: str


class Preparing:
    """A service that answers when the test says so."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.answers: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def __call__(self, request: Prepare) -> str:
        self.asked.append(request.name)
        return await self.answers


def ask(machine: GroupMachine, step: GroupStep, name: str, token: Any, now: Now) -> None:
    """Write a record, and call the service when it is written."""
    machine.append(step, [Record(encode_offset_key(GROUP, name, 0), None)])
    step.call_when_written(Prepare(name), prepared, name)
    step.reply_when_written(token, "asked", str)


def prepared(machine: GroupMachine, step: GroupStep, name: str, result: Any, now: Now) -> None:
    """Note the result in the state of the test."""
    machine.topic_hashes[f"{name}: {result}"] = 1


def wait_for(machine: GroupMachine, step: GroupStep, name: str, token: Any, now: Now) -> None:
    """The same, and the answer is the result of the call."""
    machine.append(step, [Record(encode_offset_key(GROUP, name, 0), None)])
    step.call_for(Waiting(token, refused, (name,)), Prepare(name), answered, token)


def answered(machine: GroupMachine, step: GroupStep, token: Any, result: Any, now: Now) -> None:
    step.reply(token, result)


def refused(name: str, code: ErrorCode) -> str:
    return f"{name}: {code.name}"


def served(broker: GroupBroker) -> tuple[Any, Preparing]:
    runtime, service = broker.runtime(), Preparing()
    runtime._services = {Prepare: service}
    return runtime, service


def test_a_call_follows_its_records_and_its_result_is_an_operation(tmp_path: Path) -> None:
    """If this fails, share state is initialized for a group whose record was lost."""

    async def work() -> None:
        async with GroupBroker(tmp_path) as broker:
            await broker.prepare()
            runtime, service = served(broker)
            held = HeldPartition(runtime)
            first = runtime.run(ask, "kept")
            await in_flight(held, 1)
            assert service.asked == []
            held.outcomes[0](None)
            assert await first == "asked"
            second = runtime.run(ask, "lost")
            await in_flight(held, 2)
            held.outcomes[1](lost())
            assert await second != "asked"
            await until(lambda: service.asked == ["kept"])
            assert not runtime.machine.topic_hashes
            service.answers.set_result("done")
            await until(lambda: list(runtime.machine.topic_hashes) == ["kept: done"])
            assert service.asked == ["kept"]

    run(work)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "no coordinator"), ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ZeroDivisionError("a defect"), ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
def test_a_failed_call_is_a_result(tmp_path: Path, error: Exception, code: ErrorCode) -> None:
    """If this fails, a part of the state waits for an answer that never comes."""

    async def work() -> None:
        async with GroupBroker(tmp_path) as broker:
            await broker.prepare()
            runtime, service = served(broker)
            assert await runtime.run(ask, "t") == "asked"
            service.answers.set_exception(error)
            await until(lambda: bool(runtime.machine.topic_hashes))
            (found,) = runtime.machine.topic_hashes
            reason = str(error) if isinstance(error, KafkaError) else repr(error)
            assert found == f"t: {CallFailed(code, reason)}"

    run(work)


def test_a_coordinator_that_is_closed_calls_nobody(tmp_path: Path) -> None:
    """If this fails, a broker that no longer coordinates a group changes its state elsewhere, or leaves a task."""

    async def work() -> None:
        async with GroupBroker(tmp_path) as broker:
            await broker.prepare()
            runtime, service = served(broker)
            held = HeldPartition(runtime)
            runtime.run(ask, "before")
            await in_flight(held, 1)
            held.outcomes[0](None)
            await until(lambda: service.asked == ["before"])
            runtime.run(ask, "after")
            await in_flight(held, 2)
            runtime.close()
            held.outcomes[1](None)
            await until(lambda: not runtime._calls)
            assert service.answers.cancelled()
            assert (service.asked, runtime.machine.topic_hashes) == (["before"], {})

    run(work)


def test_a_request_waits_for_the_result_of_its_call(tmp_path: Path) -> None:
    """If this fails, an administrator's request hangs: its records are lost, or the coordinator moves meanwhile."""

    async def work() -> None:
        async with GroupBroker(tmp_path) as broker:
            await broker.prepare()
            runtime, service = served(broker)
            held = HeldPartition(runtime)
            lost_one = runtime.run(wait_for, "lost")
            await in_flight(held, 1)
            held.outcomes[0](lost())
            assert await lost_one == "lost: NOT_COORDINATOR"
            answered_one = runtime.run(wait_for, "answered")
            await in_flight(held, 2)
            held.outcomes[1](None)
            await until(lambda: service.asked == ["answered"])
            service.answers.set_result("done")
            assert await answered_one == "done"
            service.answers = asyncio.get_running_loop().create_future()
            under_way = runtime.run(wait_for, "under way")
            await in_flight(held, 3)
            held.outcomes[2](None)
            await until(lambda: service.asked == ["answered", "under way"])
            unwritten = runtime.run(wait_for, "unwritten")
            await in_flight(held, 4)
            runtime.close()
            assert await under_way == "under way: NOT_COORDINATOR"
            assert await unwritten == "unwritten: NOT_COORDINATOR"
            held.outcomes[3](None)

    run(work)
