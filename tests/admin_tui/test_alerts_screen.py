"""Alerts in the terminal: on every screen, and the screen of the rules."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from admin_tui.app import Console
from bench.launch.nodes import free_ports
from broker_cy.console.alerts.rules import AlertSettings, Rule, WebhookSettings
from broker_cy.console.alerts.watch import Alerting
from tests.admin_tui.conftest import Terminal, drive, entry_of
from tests.support.broker import BrokerProcess

ALWAYS = Rule("room", "disk", free_percent=100)


def test_an_alert_is_announced_once_for_each_cluster(broker_cy: BrokerProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, an alert is not seen on another screen, or is announced again at each change of the cluster."""
    alerting = Alerting(AlertSettings((ALWAYS,)), interval_s=0.05)
    entry = entry_of(broker_cy.bootstrap)
    clusters = {name: replace(entry, name=name) for name in ("a", "b")}
    told: list[str] = []
    notify = Console.notify

    def listen(app: Console, message: str, **more: Any) -> None:
        told.append(message)
        notify(app, message, **more)

    # Before the console starts: it announces the first alert at any time after that.
    monkeypatch.setattr(Console, "notify", listen)

    async def job(terminal: Terminal) -> None:
        looks: list[int] = []
        alerting.watch("a").subscribe(lambda: looks.append(1))
        await terminal.command("topics")
        await terminal.shows("1 alert")
        for number, name in enumerate("ab", 2):
            await terminal.command(f"cluster {name}")
            await terminal.until(lambda number=number: len(told) >= number, f"{number} alerts")  # type: ignore[misc]
        seen = len(looks)
        await terminal.command("cluster a")
        await terminal.until(lambda: len(looks) >= seen + 3, "looks at a again")
        assert all(each.startswith("room: ") for each in told)
        assert len(told) == 3
        await terminal.command("alerts")
        await terminal.shows("firing", "room", "1 alert")

    drive(broker_cy.bootstrap, job, clusters=clusters, alerts=alerting)


def test_the_built_in_rules_hold_without_a_file(broker_cy: BrokerProcess) -> None:
    """If this fails, no alerts exist without a rules file."""

    async def job(terminal: Terminal) -> None:
        await terminal.command("alerts")
        await terminal.shows("offline partitions", "low disk space", "no quorum leader", "ok")

    drive(broker_cy.bootstrap, job)


def test_the_fate_of_deliveries_is_shown(broker_cy: BrokerProcess) -> None:
    """If this fails, users rely on a webhook whose receiver is unavailable."""
    url = f"http://127.0.0.1:{free_ports(1)[0]}/secret"
    alerting = Alerting(AlertSettings((ALWAYS,), WebhookSettings(url, attempts=1)), interval_s=0.1, notifies=True)

    async def job(terminal: Terminal) -> None:
        await terminal.command("alerts")
        await terminal.shows("Webhook", "failed 1", "delivered 0", "dropped 0", "last error")
        assert "secret" not in terminal.text()

    drive(broker_cy.bootstrap, job, alerts=alerting)
