"""A dashboard without a browser and without HTTP: channels and acts of one cluster, for one identity."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Any

from broker_cy.admin.address import parse_addresses
from broker_cy.client.address import Address
from broker_cy.client.clusters import ClusterEntry
from broker_cy.client.errors import ClientError, Failure
from broker_cy.console.alerts.rules import AlertSettings
from broker_cy.console.alerts.watch import Alerting
from dashboard.acts import Acts
from dashboard.collector.channel import channel_class
from dashboard.collector.hub import ClusterHub
from dashboard.collector.live_channel import LiveChannel
from dashboard.context import IDENTITY, Context
from dashboard.pages.registry import PAGES
from dashboard.security.masking import Masking
from dashboard.security.roles import Identity, Need, Role, Scope, decide

WAIT_S = 60.0
CLUSTER = "test"
ADMIN = Identity("ada", Role.ADMIN, Scope(unmasked=True), "password", "127.0.0.1")
OPERATOR = replace(ADMIN, name="olga", role=Role.OPERATOR)
VIEWER = replace(ADMIN, name="vera", role=Role.VIEWER)


class Notes:
    """An audit log in memory."""

    def __init__(self) -> None:
        self.entries: list[dict[str, Any]] = []

    def note(self, **entry: Any) -> None:
        self.entries.append(entry)


class Audited:
    """The part of Security that acts and exports need."""

    def __init__(self) -> None:
        self.audit = Notes()
        # The reason why logins are no longer valid; empty if they are.
        self.ended = ""

    def current(self, identity: Identity) -> str:
        return self.ended

    def check(self, identity: Identity | None, need: Need, *, act: str, subject: str = "") -> str:
        reason = decide(identity, need)
        if reason:
            self.audit.note(
                user=identity.name if identity else "", cluster=need.cluster, act=act, result=f"refused: {reason}"
            )
        return reason


class Looker:
    """A viewer of one channel that keeps every frame."""

    def __init__(self) -> None:
        self.states: list[Any] = []
        self.errors: list[str] = []
        self.is_absent = False
        self._new = asyncio.Event()

    def offer(self, live: LiveChannel) -> None:
        assert live.frame is not None
        self.states.append(live.frame.state)
        self.errors.append(live.frame.health.error)
        self.is_absent = live.frame.health.is_absent
        self._new.set()

    async def until(self, wanted: Callable[[Any], bool]) -> Any:
        """Wait for a state that satisfies `wanted`, and return it."""
        try:
            async with asyncio.timeout(WAIT_S):
                while not (self.states and self.states[-1] is not None and wanted(self.states[-1])):
                    self._new.clear()
                    await self._new.wait()
        except TimeoutError:
            raise AssertionError(f"last state {self.states[-1:]}, last error {self.errors[-1:]}") from None
        return self.states[-1]

    async def failed(self) -> str:
        """Wait for an error, and return it."""
        async with asyncio.timeout(WAIT_S):
            while not (self.errors and self.errors[-1]):
                self._new.clear()
                await self._new.wait()
        return self.errors[-1]


class Desk:
    """`identity` is the user who views and acts; it can be replaced at any time."""

    def __init__(
        self,
        bootstrap: str,
        identity: Identity = ADMIN,
        *,
        is_readonly: bool = False,
        masking: Masking | None = None,
        alerts: AlertSettings | None = None,
        secured: Mapping[str, str] | None = None,
        registry: str | None = None,
        mirrors: tuple[Address, ...] = (),
    ) -> None:
        self.identity = identity
        self.alerts = Alerting(alerts or AlertSettings(), notifies=alerts is not None and alerts.webhook is not None)
        entry = ClusterEntry(
            CLUSTER, parse_addresses(bootstrap), 10.0, secured=secured or {}, registry=registry, mirrors=mirrors
        )
        self.hub = ClusterHub(entry, self.alerts, masking=masking)
        self.security = Audited()
        security: Any = self.security
        self.context = Context({CLUSTER: self.hub}, security, is_readonly, PAGES)
        self.acts = Acts(self.context)

    async def __aenter__(self) -> Desk:
        self.hub.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.acts.close()
        await self.hub.close()
        await self.alerts.close()

    def look(self, channel: str, **params: str) -> Looker:
        """Watch a channel as the WebSocket would. Raises ClientError if the identity has no access."""
        reason = decide(self.identity, channel_class(channel).need(CLUSTER, params))
        if reason:
            raise ClientError(Failure.REFUSED, reason)
        looker = Looker()
        self.hub.watch(channel, params, self.identity.scope, looker)
        return looker

    async def state(self, channel: str, wanted: Callable[[Any], bool] = lambda state: True, **params: str) -> Any:
        """Return the first state of a channel that satisfies `wanted`."""
        return await self.look(channel, **params).until(wanted)

    async def rows(self, channel: str, wanted: Callable[[Any], bool] = lambda state: True, **params: str) -> Any:
        """Return the rows of a table by id: the texts of their cells by column."""
        state = await self.state(channel, wanted, **params)
        columns: Any = channel_class(channel)
        names = [column.key for column in columns.COLUMNS]
        return {row["id"]: dict(zip(names, map(text_of, row["cells"]), strict=True)) for row in state["rows"]}

    async def open(self, act: str, *, rows: Sequence[str] = (), **params: str) -> dict[str, Any]:
        """Open an act: its form, or its plan. Raises ClientError."""
        return await self._ask(self.acts.open, act=act, rows=list(rows), params=params)

    async def plan(
        self, act: str, values: dict[str, str], *, rows: Sequence[str] = (), **params: str
    ) -> dict[str, Any]:
        """Plan an act with the texts of its form. Raises ClientError."""
        return await self._ask(self.acts.plan, act=act, rows=list(rows), params=params, values=values)

    async def execute(self, plan: dict[str, Any], typed: str | None = None) -> dict[str, Any]:
        """Execute a plan. Raises ClientError."""
        return await self._ask(self.acts.execute, plan=plan["id"], typed=typed)

    async def _ask(self, step: Callable[[Any], Awaitable[dict[str, Any]]], **request: Any) -> dict[str, Any]:
        token = IDENTITY.set(self.identity)
        try:
            return await step({"cluster": CLUSTER, **request})
        finally:
            IDENTITY.reset(token)


def text_of(cell: Any) -> Any:
    """Return the text of a cell, with or without tone and link."""
    return cell["t"] if isinstance(cell, dict) else cell
