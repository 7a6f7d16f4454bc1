"""The operations that the active controller starts by itself, and their order."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

from broker_cy.config import BrokerConfig
from broker_cy.control.active.controller_duties import ControllerDuties
from broker_cy.controller.broker_states import FenceBrokers, LeaveInSync, ReplaceLeaders
from broker_cy.core.clock import MACHINE_CLOCK
from broker_cy.core.errors import ErrorCode, KafkaError
from tests.broker_cy.coordinator_services.group_broker import run, until


class Active:
    """An active controller that notes operations; the test says when their records are committed."""

    def __init__(self, *expired: int) -> None:
        self.submitted: list[tuple[Any, asyncio.Future[Any]]] = []
        self.brokers: dict[int, Any] = {}
        self.checks = 0
        self._expired = expired
        self.heartbeats = SimpleNamespace(session_timeout_ms=0, expired=self._ended, next_check_ms=lambda brokers: 0)

    def _ended(self, brokers: object, now_ms: int) -> tuple[int, ...]:
        self.checks += 1
        return self._expired

    def submit(self, operation: Any) -> asyncio.Future[Any]:
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.submitted.append((operation, future))
        return future

    @property
    def operations(self) -> list[tuple[type, tuple[int, ...]]]:
        return [(type(operation), operation.broker_ids) for operation, _ in self.submitted]


def duties_of(active: Active) -> ControllerDuties:
    config = BrokerConfig.from_properties({"node.id": "1", "log.dirs": "unused"})
    watch = SimpleNamespace(dead={}, silent={}, cut={}, refused={}, strangers=frozenset())
    return ControllerDuties(config, MACHINE_CLOCK, asyncio.get_running_loop(), cast(Any, active), cast(Any, watch))


def test_brokers_are_fenced_when_others_lead() -> None:
    """If this fails, clients wait until the fencing and all its changes are committed, or a broker is fenced repeatedly
    while the quorum commits nothing.
    """

    async def work() -> None:
        # Broker 1 is this process, which is alive.
        active = Active(1, 2)
        duties = duties_of(active)
        duties.start()
        await until(lambda: active.checks > 3)
        assert active.operations == [(ReplaceLeaders, (2,))]
        # The operation that replaces the leaders returns the next step.
        active.submitted[0][1].set_result(LeaveInSync((2,)))
        await until(lambda: len(active.submitted) > 1)
        assert active.operations[1] == (LeaveInSync, (2,))
        active.submitted[1][1].set_result(None)
        await until(lambda: len(active.submitted) > 2)
        assert active.operations[2] == (FenceBrokers, (2,))
        duties.stop()

    run(work)


def test_a_broker_is_fenced_although_no_leader_could_be_replaced() -> None:
    """If this fails, a failed election leaves a dead broker in service."""

    async def work() -> None:
        active = Active()
        duties = duties_of(active)
        duties.start()
        duties.fence_dead({2: 7})
        active.submitted[0][1].set_exception(KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "no space"))
        await until(lambda: len(active.submitted) > 1)
        duties.fence_silent({3: 8})
        duties.stop()
        # Another node leads: it fences.
        active.submitted[2][1].set_exception(KafkaError(ErrorCode.NOT_CONTROLLER, "it leads no longer"))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert active.operations == [(ReplaceLeaders, (2,)), (FenceBrokers, (2,)), (ReplaceLeaders, (3,))]

    run(work)
