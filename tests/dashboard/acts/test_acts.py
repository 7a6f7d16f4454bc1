"""The admin clients of users are closed only when idle, while acts are planned and executed at the same time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pytest

from broker_cy.client.errors import ClientError
from broker_cy.console.acts.plan import Plan, Report
from dashboard import acts
from dashboard.acts import CLIENT_IDLE_S, Act, Acts, Call
from dashboard.context import IDENTITY
from dashboard.security.roles import Identity, Role
from tests.dashboard.support import ADMIN, CLUSTER, Desk

OTHER = replace(ADMIN, name="alan")
# No process listens there: these tests need no cluster.
NOWHERE = "127.0.0.1:1"


class Client:
    """Stands in for an AdminClient. Closing takes a while, in which other acts run."""

    def __init__(self, *_: Any, client_id: str, **__: Any) -> None:
        self.client_id = client_id
        self.closed = 0

    async def close(self) -> None:
        await asyncio.sleep(0)
        self.closed += 1


class Gate:
    """Holds acts until the test releases them."""

    def __init__(self) -> None:
        self.opened = asyncio.Event()
        self.opened.set()
        self.reached = asyncio.Event()

    async def passed(self) -> None:
        self.reached.set()
        await self.opened.wait()


class Bench:
    """A dashboard with the act `probe`, a clock that only the test moves, and the clients that the act received."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        self.now_s = 1_000.0
        self.acts = desk.acts = Acts(desk.context, lambda: self.now_s)
        self.planning, self.executing = Gate(), Gate()
        # For each plan and execution: the client, and how often it was closed before the end.
        self.planned: list[tuple[Client, int]] = []
        self.executed: list[tuple[Client, int]] = []

    async def ask(self, identity: Identity, step: str, **request: Any) -> dict[str, Any]:
        token = IDENTITY.set(identity)
        try:
            answer: dict[str, Any] = await getattr(self.acts, step)({"cluster": CLUSTER, "act": "probe", **request})
            return answer
        finally:
            IDENTITY.reset(token)

    async def open(self, identity: Identity = ADMIN) -> str:
        return str((await self.ask(identity, "open"))["plan"]["id"])

    def clients(self) -> list[str]:
        return [name for _, name in self.acts._clients]


def drive(monkeypatch: pytest.MonkeyPatch, job: Callable[[Bench], Awaitable[None]]) -> None:
    async def run() -> None:
        async with Desk(NOWHERE) as desk:
            bench = Bench(desk)

            @dataclass(frozen=True)
            class Probing:
                async def run(self, client: Any) -> Report:
                    await bench.executing.passed()
                    bench.executed.append((client, client.closed))
                    return Report("done")

            class Probe(Act):
                name, role = "probe", Role.ADMIN

                async def plan(self, call: Call, values: Mapping[str, Any]) -> Plan:
                    await bench.planning.passed()
                    client: Any = call.client
                    bench.planned.append((client, client.closed))
                    return Plan("probe", "one", "broker-cy probe", Probing())

            monkeypatch.setitem(acts._ACTS, "probe", Probe)
            monkeypatch.setattr(acts, "AdminClient", Client)
            async with asyncio.timeout(30):
                await job(bench)

    asyncio.run(run())


@pytest.mark.parametrize("step", ["open", "execute"])
def test_a_client_in_use_is_not_closed(monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    """If this fails, a long act fails halfway because another user started one."""

    async def job(bench: Bench) -> None:
        plan = await bench.open()
        gate = bench.planning if step == "open" else bench.executing
        gate.reached.clear()
        gate.opened.clear()
        running = asyncio.create_task(bench.ask(ADMIN, step, plan=plan))
        await gate.reached.wait()
        bench.now_s += 2 * CLIENT_IDLE_S
        other = asyncio.create_task(bench.open(OTHER))
        await asyncio.sleep(0)
        gate.opened.set()
        await asyncio.gather(running, other)
        used, closed = (bench.planned if step == "open" else bench.executed)[-1 if step == "execute" else 1]
        assert (used.client_id, closed, used.closed) == ("dashboard/ada", 0, 0)
        # Its idle time starts at its last use.
        bench.now_s += CLIENT_IDLE_S + 1
        await bench.open(OTHER)
        assert (used.closed, bench.clients()) == (1, ["alan"])

    drive(monkeypatch, job)


def test_a_kept_plan_is_executed_with_a_live_client(monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, a user who reads a plan for some minutes can no longer execute it."""

    async def job(bench: Bench) -> None:
        plan = await bench.open()
        bench.now_s += CLIENT_IDLE_S + 1
        await bench.open(OTHER)
        assert bench.planned[0][0].closed == 1
        assert (await bench.ask(ADMIN, "execute", plan=plan))["said"] == "done"
        (client, closed) = bench.executed[0]
        assert (client.client_id, closed) == ("dashboard/ada", 0)

    drive(monkeypatch, job)


def test_acts_at_once_close_a_client_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, simultaneous acts of two users fail with an internal error."""

    async def job(bench: Bench) -> None:
        await bench.open(OTHER)
        bench.now_s += CLIENT_IDLE_S + 1
        await asyncio.gather(*(bench.open(replace(ADMIN, name=f"user-{at}")) for at in range(10)))
        assert bench.planned[0][0].closed == 1
        assert sorted(bench.clients()) == [f"user-{at}" for at in range(10)]

    drive(monkeypatch, job)


def test_a_plan_is_executed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, a button that was pressed twice changes the cluster twice."""

    async def job(bench: Bench) -> None:
        plan = await bench.open()
        # Both executions wait until the other client is closed.
        await bench.open(OTHER)
        bench.now_s += CLIENT_IDLE_S + 1
        both = await asyncio.gather(*(bench.ask(ADMIN, "execute", plan=plan) for _ in range(2)), return_exceptions=True)
        (refused,) = [each for each in both if isinstance(each, BaseException)]
        assert isinstance(refused, ClientError)
        assert "executed already" in str(refused)
        assert len(bench.executed) == 1

    drive(monkeypatch, job)


def test_clients_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, many simultaneous users exhaust the connections, or close the clients of running acts."""
    monkeypatch.setattr(acts, "CLIENTS_MAX", 2)

    async def job(bench: Bench) -> None:
        bench.planning.opened.clear()
        running = []
        for identity in (ADMIN, OTHER):
            bench.planning.reached.clear()
            running.append(asyncio.create_task(bench.open(identity)))
            await bench.planning.reached.wait()
        with pytest.raises(ClientError, match="2 users are changing something"):
            await bench.open(replace(ADMIN, name="third"))
        bench.planning.opened.set()
        await asyncio.gather(*running)
        await bench.open(replace(ADMIN, name="third"))
        assert bench.clients() == ["alan", "third"]
        assert [client.closed for client, _ in bench.planned] == [1, 0, 0]

    drive(monkeypatch, job)
