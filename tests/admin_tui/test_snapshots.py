"""Every screen looks as it was last approved, at 80x24 and 160x50.

BROKER_TUI_SNAPSHOTS=write replaces the pictures: check them before they are committed.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

from admin_tui.app import Console
from admin_tui.picture import svg_of
from admin_tui.screens import messages, quorum
from admin_tui.settings import Settings
from admin_tui.widgets.columns import GAP
from admin_tui.widgets.grid import Grid
from broker_cy.console.alerts.rules import AlertSettings, Rule, WebhookSettings
from broker_cy.console.alerts.watch import Alerting, Finding
from broker_cy.console.columns import tokens, transactions
from broker_cy.console.scan import Row, Scan, State
from broker_cy.wire.records import Record
from tests.admin_tui.conftest import Terminal, entry_of
from tests.admin_tui.frozen import NOW_MS, FrozenSession
from tests.admin_tui.frozen_mirrors import FLOW
from tests.admin_tui.frozen_schemas import SUBJECT, FrozenSchemas
from tests.support.streams_application import NAME as APPLICATION

SNAPSHOTS = Path(__file__).with_name("snapshots")
WRITE = os.environ.get("BROKER_TUI_SNAPSHOTS") == "write"
VIEWS = (
    "overview",
    "brokers",
    "broker-settings 1",
    "topics",
    "topic orders",
    "topic-settings orders",
    "messages orders",
    "schemas",
    f"schema {SUBJECT}",
    "mirrors",
    f"mirror {FLOW}",
    "mirror paris",
    "streams",
    f"stream {APPLICATION}",
    "groups",
    "group billing",
    "rebalances",
    "transactions",
    "quotas",
    "delegation-tokens",
    "producers orders",
    "connections",
    "log-dirs",
    "metrics",
    "replication",
    "reassignments",
    "quorum",
    "events",
    "alerts",
)


def frozen_alerts() -> Alerting:
    """Return alerts with one firing rule, one pending rule and one that is fine, and a webhook."""
    alerting = Alerting(
        AlertSettings((), WebhookSettings("https://hooks.example.com/secret")), interval_s=3_600, notifies=True
    )
    assert alerting.webhook is not None
    alerting.webhook.delivered = 4
    watch = alerting.watch("broker-1:9092")
    lag, stopped = Rule("payments fall behind", "lag", records=10), Rule("stopped groups", "stopped_group")
    disk = Rule("low disk space", "disk", free_percent=10)
    # The screen sorts them by state.
    watch.findings = (
        Finding(disk, "ok", "", "", None),
        Finding(lag, "firing", "billing", "group billing is 1,234 records behind (limit 10)", 125.0),
        Finding(stopped, "pending", "reports", "group reports stopped committing, 98,765,432 records behind", 5.0),
    )
    watch._looked_at_s = 0.0
    watch._clock = lambda: 0.0
    return alerting


def frozen_scan(view: messages.MessagesView) -> None:
    """Return records of every kind, with old timestamps."""
    view.scan = Scan(view.client, {})
    records = [
        Record(9_007_199_254_740_993, NOW_MS, b"order-1", b'{"id": 1, "total": 9.5}', [("trace", b"a")]),
        Record(8, NOW_MS - 1_500, None, b"\x1b[2Jplain \x9b text"),
        Record(7, NOW_MS - 2_000, "größe".encode(), "Größe: 東京".encode()),
        Record(6, NOW_MS - 3_000, b"big", b"x" * 2_000_000),
        Record(5, NOW_MS - 4_000, b"gone", None),
    ]
    view.scan.rows = [Row(n % 3, record) for n, record in enumerate(records)]
    view.scan.state, view.scan.records, view.scan.matches = State.DONE, 5, 5
    view.scan._newest = 100


def is_cut(grid: Grid[Any]) -> bool:
    """Return whether columns extend beyond the screen and cannot be seen."""
    width = grid.scrollable_content_region.width
    columns = grid._lay_out(width)
    return sum(wide for _, wide in columns) + GAP * (len(columns) - 1) > width


@pytest.fixture(autouse=True)
def frozen_time(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (transactions, quorum, tokens):
        monkeypatch.setattr(module, "now_ms", lambda: NOW_MS)
    monkeypatch.setattr(messages.MessagesView, "_begin", frozen_scan)


@pytest.mark.parametrize("size", [(80, 24), (160, 50)], ids=["80x24", "160x50"])
@pytest.mark.parametrize("view", VIEWS)
def test_the_screen_looks_as_it_did(view: str, size: tuple[int, int], tmp_path: Path) -> None:
    """If this fails, a screen lost a column, a colour or its footer, and no other test checks them."""

    async def picture() -> str:
        app = Console(entry_of("broker-1:9092"), Settings(utc=True), alerts=frozen_alerts())
        app.session = FrozenSession()
        app._schemas = app.session.entry, FrozenSchemas()
        async with app.run_test(size=size) as pilot:
            terminal = Terminal(pilot, app)
            if view != "overview":
                app.run_command(view)
                await terminal.goes_to(view.split()[0])
            # Wait until nothing changes: layout and messages take several iterations.
            before = ""
            while True:
                await pilot.pause(0.1)
                now = svg_of(app.screen._compositor.render_strips(), size[0])
                if now == before and "·" in now:
                    assert not [grid.title for grid in app.screen.query(Grid) if grid.display and is_cut(grid)]
                    return now
                before = now

    found = asyncio.run(picture())
    name = view.replace("->", " ").replace(" ", "-")
    path = SNAPSHOTS / f"{name}-{size[0]}x{size[1]}.svg"
    if WRITE:
        SNAPSHOTS.mkdir(exist_ok=True)
        path.write_text(found, encoding="utf-8")
    if found != path.read_text(encoding="utf-8"):
        actual = tmp_path / path.name
        actual.write_text(found, encoding="utf-8")
        raise AssertionError(f"{path.name} has changed: compare {path} with {actual}")
