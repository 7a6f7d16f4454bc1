"""Take the pictures of docs/tui.md, and those of screens in docs/registry.md, from a running console that shows the
demo: `python -m tools.tui_pictures`.

Takes about two minutes: the demo's groups need a history.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from textual.pilot import Pilot
from textual.widgets import Input

from admin_tui.app import Console
from admin_tui.settings import Settings
from bench.launch.nodes import free_ports
from broker_cy.admin.address import parse_addresses
from broker_cy.admin.metadata import TopicPartition
from broker_cy.client.clusters import ClusterEntry
from broker_cy.console.alerts.rules import BUILT_IN, AlertSettings, Rule
from broker_cy.console.alerts.watch import Alerting
from demo.topics import APPLICATION, PACKAGES, SLOW
from tools.demo_on_spark import ON_SPARK, running_on_spark
from tools.demo_schemas import MAINTAINER, SUBJECT, running_registry

# A rule as that of docs/tui.md. The group of the demo is too slow.
BEHIND = Rule("audit falls behind", "lag", for_s=30, group=SLOW.group_id, records=1_000)
PICTURES = Path(__file__).resolve().parents[1] / "docs" / "pictures"
SIZE = (120, 36)
WAIT_S = 60.0
VERDICT_S = 15.0
STOP_S = 30.0


def _text(app: Console) -> str:
    """Return the text of the screen."""
    strips = app.screen._compositor.render_strips()
    return "\n".join("".join(segment.text for segment in strip) for strip in strips)


async def _shows(app: Console, pilot: Pilot[Any], *texts: str) -> None:
    """Wait until the screen has all of `texts`. Raises TimeoutError after WAIT_S."""

    async with asyncio.timeout(WAIT_S):
        while not all(text in _text(app) for text in texts):
            await pilot.pause(0.1)
    # The last changes may not be drawn yet.
    await pilot.pause(0.5)


async def take_schemas(bootstrap: str, registry: str, write: Callable[[str, str], None]) -> None:
    """Take the pictures of the screens about schemas, which need no history."""
    app = Console(ClusterEntry("demo", parse_addresses(bootstrap), registry=registry), Settings(utc=True))
    async with app.run_test(size=SIZE) as pilot:
        await _shows(app, pilot, "connected")
        app.run_command("schemas")
        await _shows(app, pilot, SUBJECT, MAINTAINER, "READONLY")
        write("schemas", app.picture())
        app.run_command(f"schema {SUBJECT}")
        await _shows(app, pilot, '"installed"')
        await pilot.press("v")
        await _shows(app, pilot, "READER_FIELD_MISSING_DEFAULT_VALUE")
        write("schema", app.picture())


async def take_streams(bootstrap: str, seconds: float, write: Callable[[str, str], None]) -> None:
    """Take the pictures of the screens about applications: the demo's own one, and another one on Spark."""
    app = Console(ClusterEntry("demo", parse_addresses(bootstrap)), Settings(utc=True))
    async with app.run_test(size=SIZE) as pilot:
        await _shows(app, pilot, "connected")
        await pilot.pause(seconds)
        app.run_command("streams")
        await _shows(app, pilot, APPLICATION, ON_SPARK)
        write("streams", app.picture())
        app.run_command(f"stream {ON_SPARK}")
        await _shows(app, pilot, "Batches on Spark", "1_0")
        write("stream", app.picture())


async def take(bootstrap: str, seconds: float, write: Callable[[str, str], None]) -> None:
    """Take a picture of each other screen once the overview has a history of `seconds`."""
    entry = ClusterEntry("demo", parse_addresses(bootstrap))
    app = Console(entry, Settings(utc=True), alerts=Alerting(AlertSettings((*BUILT_IN, BEHIND))))
    async with app.run_test(size=SIZE) as pilot:
        await pilot.pause(seconds)
        await _shows(app, pilot, "connected", PACKAGES, "rebalance")
        # The cursor follows its row, whose place changed with the rates.
        await pilot.press("g")
        await pilot.pause(0.5)
        write("overview", app.picture())
        app.run_command(f"messages {PACKAGES}")
        await _shows(app, pilot, "100 found")
        write("messages", app.picture())
        app.run_command("groups")
        await _shows(app, pilot, SLOW.group_id, "search-index")
        write("groups", app.picture())
        app.run_command(f"group {SLOW.group_id}")
        await _shows(app, pilot, "=", f"{PACKAGES}-5")
        # Verdicts are based on a window of commits.
        await pilot.pause(VERDICT_S)
        write("group", app.picture())
        app.run_command("rebalances")
        await _shows(app, pilot, "search-index", "join_ms")
        write("rebalances", app.picture())
        app.run_command("metrics")
        # The busiest API comes first; a Fetch waits for records, so that its latency shows little.
        await _shows(app, pilot, "Produce", "handler")
        while "Phases of Produce" not in _text(app):
            await pilot.press("down")
            await pilot.pause(0.1)
        await _shows(app, pilot, "handler")
        write("metrics", app.picture())
        app.run_command("alerts")
        await _shows(app, pilot, "firing", "no quorum leader", "low disk space")
        write("alerts", app.picture())
        # A reset needs a group without members.
        offsets = {TopicPartition(PACKAGES, index): 100 + index for index in range(6)}
        await app.session.client.group_offsets.alter("nightly-report", offsets)
        app.run_command("group nightly-report")
        await _shows(app, pilot, "Empty", f"{PACKAGES}-5")
        app.screen.run_worker(app.screen.run_action("reset"))
        await _shows(app, pilot, "Up and down")
        app.screen.query_one("#field-topics", Input).value = PACKAGES
        app.screen.run_worker(app.screen.run_action("submit"))
        await _shows(app, pilot, "--to-earliest")
        write("reset", app.picture())


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.tui_pictures", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0, help="of history; default %(default)g")
    parser.add_argument("--schemas", action="store_true", help="only the pictures of schemas")
    parser.add_argument("--streams", action="store_true", help="only the pictures of applications")
    given = parser.parse_args()
    argv = [sys.executable, "-m", "demo", "--listener", "127.0.0.1:0", "--metrics", "", "--dashboard", ""]
    demo = subprocess.Popen([*argv, "--crash-every", "20", "--back-after", "8"], stdout=subprocess.PIPE, text=True)
    try:
        assert demo.stdout is not None
        bootstrap = next(found[1] for text in demo.stdout if (found := re.search(r"(127\.0\.0\.1:\d+)", text)))

        def write(name: str, svg: str) -> None:
            (PICTURES / f"tui-{name}.svg").write_text(svg, encoding="utf-8")
            print(f"tui-{name}.svg", flush=True)

        if not given.streams:
            (port,) = free_ports(1)
            with running_registry(bootstrap, f"127.0.0.1:{port}") as registry:
                asyncio.run(take_schemas(bootstrap, registry, write))
        if not given.schemas:
            with running_on_spark(bootstrap):
                asyncio.run(take_streams(bootstrap, given.seconds, write))
        if not given.schemas and not given.streams:
            asyncio.run(take(bootstrap, given.seconds, write))
    finally:
        demo.send_signal(signal.SIGTERM)
        demo.communicate(timeout=STOP_S)
    return 0


if __name__ == "__main__":
    sys.exit(main())
