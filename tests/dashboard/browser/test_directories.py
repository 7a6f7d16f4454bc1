"""The acts on the disks of a broker, in the browser."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.dashboard.browser.tab import Tab
from tests.support.broker import BrokerProcess
from tests.support.confluent import send
from tests.support.dashboard import running_dashboard
from tests.support.topics import create_topic
from tests.support.wait import until

pytestmark = [pytest.mark.full, pytest.mark.xdist_group("browser")]

WAIT_S = 60.0


@pytest.fixture
def site(tmp_path: Path) -> Iterator[str]:
    """The address of a dashboard whose broker has the directories `a` and `b`, and the topic t with four partitions."""
    paths = tmp_path / "a", tmp_path / "b"
    broker = BrokerProcess(tmp_path / "broker", {"log.dirs": ",".join(map(str, paths))}, paths[0])
    try:
        broker.start()
        create_topic(broker.bootstrap, "t", 4)
        for index in range(4):
            send(broker, "t", [b"v" * 1000] * 20, index)
        clusters = tmp_path / "clusters.toml"
        clusters.write_text(f'[clusters.main]\nbootstrap = "{broker.bootstrap}"\n')
        with running_dashboard(
            ["--clusters-file", str(clusters), "--state", str(tmp_path / "state")],
            env={"XDG_CONFIG_HOME": str(tmp_path)},
        ) as url:
            yield url
    finally:
        broker.close()


def held(path: Path) -> set[str]:
    """The replicas of t in a directory."""
    return {name for name in os.listdir(path) if name.startswith("t-") and "." not in name}


def test_replicas_are_moved_balanced_and_drained(site: str, new_tab: Callable[..., Tab], tmp_path: Path) -> None:
    """If this fails, a full disk cannot be relieved from the dashboard."""
    tab = new_tab(site)
    tab.open("storage")
    tab.settled()
    source, target = (tmp_path / name for name in (("a", "b") if "t-0" in held(tmp_path / "a") else ("b", "a")))
    tab.panel("Replicas").locator("input[aria-label^='Mark t-0 1']").check()
    command = tab.act("Move marked to a directory", {"directory": str(target)})
    assert f"log-dirs move t:0 --broker 1 --to {target}" in command
    until(lambda: "t-0" in held(target) - held(source), "the move", WAIT_S)
    tab.open("broker", broker="1")
    tab.settled()
    command = tab.act("Drain a directory", {"directory": str(source)})
    assert f"log-dirs drain {source} --broker 1" in command
    until(lambda: not held(source) and len(held(target)) == 4, "an empty directory", WAIT_S)
    tab.open("storage")
    tab.settled()
    tab.page.get_by_role("button", name="Balance", exact=True).first.click()
    dialog = tab.page.locator("dialog.dialog")
    dialog.locator("[name=by]").select_option("count")
    dialog.locator("button[type=submit]").click()
    # The drained directory is cordoned: nothing may move to it.
    dialog.locator(".error, .dialog-error, .affected, [role=alert]").first.wait_for()
    tab.page.keyboard.press("Escape")
    # Nothing moves any longer.
    tab.page.get_by_role("button", name="Cancel all", exact=True).click()
    dialog.wait_for()
