"""A tab whose login ends while it is not connected."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from bench.launch.nodes import free_ports
from tests.dashboard.browser.tab import WAIT_MS
from tests.support.dashboard import running_dashboard

pytestmark = pytest.mark.full

PASSWORD = "correct horse battery"
# Pages of an unreachable cluster are shown and connect like all others.
NOWHERE = "127.0.0.1:1"


def change_users(users: Path, *arguments: str) -> None:
    """Run `broker-dash user`."""
    subprocess.run(
        [sys.executable, "-m", "dashboard", "user", *arguments, "--users", str(users)],
        input=PASSWORD.encode(),
        check=True,
    )


def test_a_tab_whose_login_ended_shows_the_login(chromium: Browser, tmp_path: Path) -> None:
    """If this fails, the tab of a user who was removed during a restart shows "reconnecting" forever."""
    users = tmp_path / "users.toml"
    for name in ("vera", "other"):
        change_users(users, "add", name, "--role", "viewer", "--password-stdin")
    options = [
        "--bootstrap", NOWHERE, "--users", str(users), "--state", str(tmp_path / "state"),
        "--listen", f"127.0.0.1:{free_ports(1)[0]}",
    ]  # fmt: skip
    env = {"XDG_CONFIG_HOME": str(tmp_path)}
    context = chromium.new_context(locale="en-US")
    try:
        page = context.new_page()
        page.set_default_timeout(WAIT_MS)
        for restarts in range(2):
            with running_dashboard(options, env=env) as url:
                if restarts == 0:
                    page.goto(url)
                    page.get_by_label("Name").fill("vera")
                    page.get_by_label("Password").fill(PASSWORD)
                    page.get_by_role("button", name="Log in").click()
                    page.wait_for_url("**/overview")
                    page.evaluate("window.isSame = true")
                # A restart alone does not reload the page.
                page.locator("[data-live]").get_by_text("live", exact=True).wait_for()
                assert page.evaluate("window.isSame")
            page.locator("[data-live]").get_by_text("reconnecting").wait_for()
        change_users(users, "remove", "vera", "--yes")
        with running_dashboard(options, env=env) as url:
            page.wait_for_url(f"{url}login?next=**overview")
            # Open connections of the browser would keep the server from exiting.
            page.goto("about:blank")
    finally:
        context.close()
