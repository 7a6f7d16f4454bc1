"""Drives the console: sends keys, and returns the text of the screen."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, TypeVar

import pytest
from textual.events import Key
from textual.keys import _character_to_key
from textual.pilot import Pilot

from admin_tui.app import Console
from admin_tui.settings import Settings
from bench.launch.nodes import free_ports
from broker_cy.admin import AdminClient
from broker_cy.admin.address import parse_addresses
from broker_cy.client.clusters import ClusterEntry
from broker_cy.console.alerts.watch import Alerting
from tests.support.broker import QUICK, BrokerProcess

T = TypeVar("T")
WAIT_S = 60.0
SIZE = (80, 24)
# Old records are not removed while a test reads them.
FOR_EVER = {"retention.ms": "-1"}


@pytest.fixture(scope="session")
def broker_cy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """One broker for the tests of the console. A transaction that is left open counts as hanging after a second."""
    settings = {
        **QUICK,
        "transaction.partition.verification.enable": "false",
        "transaction.max.timeout.ms": "1000",
        "brokercy.metrics.listener": f"127.0.0.1:{free_ports(1)[0]}",
    }
    broker = BrokerProcess(tmp_path_factory.mktemp("tui-broker"), settings)
    try:
        yield broker.start()
    finally:
        broker.close()


@pytest.fixture
def name() -> str:
    """Return a unique name."""
    return "n-" + uuid.uuid4().hex[:10]


class Terminal:
    """A console that runs without a terminal: presses keys and waits for their effect."""

    def __init__(self, pilot: Pilot[Any], app: Console) -> None:
        self.pilot = pilot
        self.app = app

    @property
    def client(self) -> AdminClient:
        return self.app.session.client

    def lines(self) -> list[str]:
        """Return the lines of the screen."""
        strips = self.app.screen._compositor.render_strips()
        return ["".join(segment.text for segment in strip) for strip in strips]

    def text(self) -> str:
        return "\n".join(self.lines())

    async def until(self, condition: Callable[[], object], what: str) -> None:
        """Wait for a condition. AssertionError shows the screen."""
        deadline = asyncio.get_running_loop().time() + WAIT_S
        while not condition():
            if asyncio.get_running_loop().time() > deadline:
                raise AssertionError(f"waited {WAIT_S:g} s for {what}; the screen:\n{self.text()}")
            await self.pilot.pause(0.02)

    async def shows(self, *texts: str) -> None:
        for text in texts:
            await self.until(lambda text=text: text in self.text(), repr(text))  # type: ignore[misc]

    async def hides(self, text: str) -> None:
        await self.until(lambda: text not in self.text(), f"no {text!r}")

    async def press(self, *keys: str) -> None:
        """Press keys without a pause; returns once all have taken effect.

        The pilot's own method waits until the process is idle, which a console that draws charts rarely is.
        """
        for key in keys:
            sign = " " if key == "space" else key
            single = len(sign) == 1
            self.app.post_message(Key(_character_to_key(sign) if single else key, sign if single else None))
        done = asyncio.Event()
        self.app.call_later(done.set)
        await done.wait()
        await self.app.keys.done()

    async def type(self, text: str) -> None:
        """Type a text into the focused widget."""
        await self.press(*text)

    async def fill(self, **values: str) -> None:
        """Set fields of the form that is shown, and submit it."""
        from textual.widgets import Input

        for field, value in values.items():
            await self.until(lambda field=field: self.app.screen.query(f"#field-{field}"), f"the field {field}")  # type: ignore[misc]
            self.app.screen.query_one(f"#field-{field}", Input).value = value
        await self.press("ctrl+s")

    async def command(self, text: str) -> None:
        """Type a command after a colon."""
        await self.press("colon")
        await self.until(lambda: self.app.screen.query("CommandBar.-open"), "the command line")
        await self.type(text)
        await self.press("enter")

    async def goes_to(self, view: str) -> None:
        await self.until(lambda: getattr(self.app.screen, "NAME", "") == view, f"the screen {view}")


Job = Callable[[Terminal], Awaitable[None]]


def entry_of(bootstrap: str, is_readonly: bool = False) -> ClusterEntry:
    return ClusterEntry(bootstrap, parse_addresses(bootstrap), is_readonly=is_readonly)


def drive(
    bootstrap: str | ClusterEntry,
    job: Job,
    *,
    size: tuple[int, int] = SIZE,
    settings: Settings | None = None,
    is_readonly: bool = False,
    clusters: dict[str, ClusterEntry] | None = None,
    alerts: Alerting | None = None,
    timeout_s: float | None = None,
) -> None:
    """Run the console for a cluster, given by an address or an entry, and `job` with it."""

    async def inside() -> None:
        app = Console(
            entry_of(bootstrap) if isinstance(bootstrap, str) else bootstrap,
            settings,
            clusters=clusters,
            is_readonly=is_readonly,
            alerts=alerts,
            timeout_s=timeout_s,
        )
        async with app.run_test(size=size, notifications=True) as pilot:
            await job(Terminal(pilot, app))

    asyncio.run(inside())
