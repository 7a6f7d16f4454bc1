"""The reports of a broker about failed data directories, and the cases in which it ends because of them (KIP-858)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast
from uuid import UUID

from broker_cy.control.membership.broker_membership import BrokerMembership
from broker_cy.control.membership.failed_directories import LAST_S, FailedDirectories
from broker_cy.controller.broker_states import HeartbeatReply, State
from broker_cy.core.errors import ErrorCode, KafkaError
from broker_cy.metadata.image import MetadataImage
from tests.broker_cy.handlers.metadata_broker import MetadataBroker, run, until

FIRST, SECOND = UUID(int=1000), UUID(int=1001)
TIMEOUT_S = 30.0


class Timers:
    """A loop without time."""

    def __init__(self) -> None:
        self.waiting: dict[asyncio.TimerHandle, tuple[float, Callable[[], object]]] = {}

    def call_later(self, delay_s: float, callback: Callable[..., object], *arguments: object) -> asyncio.TimerHandle:
        timers = self.waiting

        class Handle:
            def cancel(self) -> None:
                timers.pop(cast(Any, self), None)

        handle = cast(asyncio.TimerHandle, Handle())
        timers[handle] = delay_s, lambda: callback(*arguments)
        return handle


def failed_directories(timers: Timers, said: list[str]) -> FailedDirectories:
    return FailedDirectories(
        cast(asyncio.AbstractEventLoop, timers), (FIRST, SECOND), TIMEOUT_S, lambda: said.append("hurry"), said.append
    )


def test_a_broker_goes_on_with_its_other_directories() -> None:
    """If this fails, one dead disk of several ends the broker although its controller knows of it."""
    timers, said = Timers(), list[str]()
    failed = failed_directories(timers, said)
    failed.add(FIRST, "one failed")
    assert (said, failed.ids, failed.has_all) == (["hurry"], (FIRST,), False)
    assert [delay_s for delay_s, _ in timers.waiting.values()] == [TIMEOUT_S]
    failed.acknowledged(())  # a heartbeat that was sent before
    assert len(timers.waiting) == 1
    failed.acknowledged((FIRST,))
    assert (said, timers.waiting) == (["hurry"], {})


def test_a_broker_ends_if_its_controller_does_not_learn_of_a_failure() -> None:
    """If this fails, a broker that cannot reach a controller leads partitions on a dead disk forever."""
    timers, said = Timers(), list[str]()
    failed = failed_directories(timers, said)
    failed.add(FIRST, "one failed")
    ((_, late),) = timers.waiting.values()
    late()
    late()
    assert len(said) == 2
    assert said[1].startswith("one failed. No active controller has acknowledged that within 30 s: replace the disk")


def test_a_broker_without_a_directory_ends_when_its_controller_knows_or_soon() -> None:
    """If this fails, a broker runs on that can do nothing, or ends before others can lead in its place."""
    timers, said = Timers(), list[str]()
    failed = failed_directories(timers, said)
    failed.add(FIRST, "one failed")
    failed.add(SECOND, "two failed")
    assert failed.has_all
    assert [delay_s for delay_s, _ in timers.waiting.values()] == [TIMEOUT_S, LAST_S]
    failed.acknowledged((FIRST,))
    assert said == ["hurry", "hurry"]
    failed.acknowledged((FIRST, SECOND))
    assert said[2].startswith("two failed, and no other one is left (log.dirs): replace the disk")
    assert timers.waiting == {}


class Controller:
    """Answers heartbeats, the first ones with an error."""

    def __init__(self, errors: int) -> None:
        self.errors = errors
        self.requests: list[Any] = []

    async def run(self, operation: Any, request: Any, *_: Any) -> Any:
        self.requests.append(request)
        if len(self.requests) <= self.errors:
            raise KafkaError(ErrorCode.NOT_CONTROLLER)
        is_end = request.want_fence
        return HeartbeatReply(True, is_end, is_end, State.SHUTDOWN_NOW if is_end else State.UNFENCED)


def test_heartbeats_name_what_has_failed(tmp_path: Path) -> None:
    """If this fails, the controller leaves partitions with a leader whose disk died."""

    async def work() -> None:
        controller, said = Controller(errors=2), list[str]()
        failed = failed_directories(Timers(), said)
        config = MetadataBroker(tmp_path).config
        loop = asyncio.get_running_loop()
        membership = BrokerMembership(config, controller, loop, "id", UUID(int=1), MetadataImage, dict, failed=failed)
        membership.run()
        await until(lambda: len(controller.requests) == 1)
        failed.add(FIRST, "one failed")
        membership.hurry()
        # It is repeated until there is an answer.
        await until(lambda: len(controller.requests) == 3)
        assert [each.offline_log_dirs for each in controller.requests] == [[], [FIRST], [FIRST]]
        assert not any(each.want_fence for each in controller.requests)
        failed.add(SECOND, "two failed")
        membership.hurry()
        await until(lambda: len(said) == 3)
        last = controller.requests[-1]
        assert (last.want_fence, last.want_shut_down, last.offline_log_dirs) == (True, True, [])
        assert said[2].startswith("two failed")
        await membership.stop()

    run(work)
