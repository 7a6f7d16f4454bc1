"""Locust's page with our tabs in use: starting, watching and stopping a run, and its results."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe  # type: ignore[import-untyped]

from bench.launch.nodes import free_ports
from broker_cy.launch.processes import Child
from tests.dashboard.browser.tab import Tab
from tests.loadgen.run.kit import COMMAND, ENDS_S, ROOT, producers
from tests.support.broker import Target
from tests.support.wait import until

pytestmark = [pytest.mark.full, pytest.mark.timeout(300)]
WAIT_MS = 90_000


@contextmanager
def serving(directory: Path, bootstrap: str, *options: str | Path) -> Iterator[str]:
    """Run `broker-load web`, and yield its address; it exits on SIGTERM without a traceback."""
    port = free_ports(1)[0]
    words = [*COMMAND, "web", "--bootstrap", bootstrap, "--listen", f"127.0.0.1:{port}", *map(str, options)]
    child = Child(words, directory, "web", env={"PYTHONPATH": str(ROOT)})
    try:
        until(lambda: "http://" in child.stdout() or child.returncode is not None, "the page", ENDS_S)
        assert child.returncode is None, child.stderr()
        yield f"http://127.0.0.1:{port}"
        child.send_signal(signal.SIGTERM)
        code = child.wait(ENDS_S)
        assert code in (0, 11), child.stderr()
        assert "Traceback" not in child.stderr(), child.stderr()
    finally:
        child.kill()


def start(tab: Tab, **values: str) -> None:
    """Fill in locust's form, start a run, and show our verdict."""
    for label, text in values.items():
        tab.page.locator(f"input[name='{label}']").fill(text)
    tab.page.get_by_role("button", name="Start", exact=True).click()
    tab.page.get_by_role("tab", name="Kafka verdict").click()
    # The text that the page still has from the previous run.
    for text in ("exit code", "failed: "):
        tab.page.locator(f"td:has-text('{text}')").wait_for(state="hidden")


def rows(tab: Tab, name: str) -> dict[str, list[str]]:
    """Show one of our tabs, and return the cells of each row after the first one."""
    tab.page.get_by_role("tab", name=name).click()
    found: list[list[str]] = tab.page.locator("tbody tr").evaluate_all(
        "(all) => all.map((row) => [...row.children].map((cell) => cell.innerText))"
    )
    return {row[0]: row[1:] for row in found}


def verdict(tab: Tab) -> dict[str, list[str]]:
    """Wait for the end of a run, and return the rows of its verdict."""
    tab.page.get_by_role("tab", name="Kafka verdict").click()
    tab.page.locator("td:has-text('exit code')").wait_for(timeout=WAIT_MS)
    return rows(tab, "Kafka verdict")


def test_a_run(broker: Target, tmp_path: Path, open_page: Callable[[str], Tab]) -> None:
    """If this fails, the page starts nothing, shows no figures or no verdict, or its downloads are broken."""
    scenario = producers(tmp_path, "page-run", seconds=8, users=7, rate=500)
    with serving(tmp_path, broker.bootstrap, "--scenario", scenario) as url:
        tab = open_page(url)
        users = tab.page.locator("input[name='userCount']")
        users.wait_for()
        # The form has the scenario's values, so that one click is enough.
        assert users.input_value() == "7"
        assert tab.page.locator("input[name='spawnRate']").input_value() == "7"
        assert tab.page.locator("input[name='host']").input_value() == broker.bootstrap
        start(tab)
        first = until(lambda: rows(tab, "Kafka figures").get("Produce"), "figures")
        until(lambda: rows(tab, "Kafka figures")["Produce"][0] != first[0], "figures that change")
        assert Axe().run(tab.page, context="table").response["violations"] == []
        found = verdict(tab)
        assert "all 4,250 acknowledged records were found" in found["Verification"][0]
        assert int(rows(tab, "Kafka figures")["Produce"][0]) >= 3900
        assert Axe().run(tab.page, context="table").response["violations"] == []
        tab.page.get_by_role("tab", name="Download Data").click()
        for link, name in (("report", "broker-load-report.html"), ("result (JSON)", "broker-load-result.json")):
            with tab.page.expect_download() as download:
                tab.page.get_by_role("link", name=f"Download broker-load's {link}").click()
            assert download.value.suggested_filename == name
            text = Path(download.value.path()).read_text(encoding="utf-8")
            if name.endswith("json"):
                assert json.loads(text)["schema"] == "broker-load/1"
            else:
                assert text.startswith("<!DOCTYPE html>")


def test_stopping_and_starting_again(broker: Target, tmp_path: Path, open_page: Callable[[str], Tab]) -> None:
    """If this fails, a run that is stopped has no figures, loses records, or is the last one."""
    scenario = producers(tmp_path, "page-stop", seconds=600, users=6, rate=300)
    with serving(tmp_path, broker.bootstrap, "--scenario", scenario) as url:
        tab = open_page(url)
        start(tab)
        until(lambda: rows(tab, "Kafka figures").get("Produce"), "figures")
        answer = tab.page.request.post(f"{url}/swarm", form={"user_count": "9", "spawn_rate": "9"})
        assert "A run is in progress" in answer.json()["message"]
        tab.page.get_by_role("button", name="Stop", exact=True).click()
        found = verdict(tab)
        assert "of 600 s" in found["Run"][0]
        assert "acknowledged records were found" in found["Verification"][0]
        # With another number of users and another duration than in the scenario.
        tab.page.get_by_role("button", name="New", exact=True).click()
        tab.page.get_by_role("button", name="Advanced options").click()
        start(tab, userCount="11", spawnRate="50", runTime="2s")
        assert "all 750 acknowledged records were found" in verdict(tab)["Verification"][0]
        result = tab.page.request.get(f"{url}/broker-load/result.json").json()
        assert result["scenario"]["users"][0]["count"] == 11
        assert result["seconds"] == 2


def test_a_cluster_that_is_away(tmp_path: Path, open_page: Callable[[str], Tab]) -> None:
    """If this fails, a run that cannot start looks like one without load, without a reason."""
    with serving(tmp_path, "127.0.0.1:1", "--scenario", producers(tmp_path, "page-away")) as url:
        tab = open_page(url)
        for _ in range(2):
            tab.page.get_by_role("button", name="Start", exact=True).click()
            tab.page.get_by_role("tab", name="Kafka verdict").click()
            tab.page.locator("td:has-text('failed: ')").wait_for()
            assert "127.0.0.1:1" in rows(tab, "Kafka verdict")["Run"][0]
            tab.page.get_by_role("button", name="New", exact=True).click()
        answer = tab.page.request.get(f"{url}/broker-load/result.json")
        assert (answer.status, answer.text()) == (404, "No run has ended yet.\n")
        tab.page.locator("input[name='host']").fill("127.0.0.1:x")
        tab.page.get_by_role("button", name="Start", exact=True).click()
        tab.page.get_by_role("tab", name="Kafka verdict").click()
        tab.page.locator("td:has-text('127.0.0.1:x')").wait_for()


def test_two_processes(broker: Target, tmp_path: Path, open_page: Callable[[str], Tab]) -> None:
    """If this fails, the page cannot use more than one core, or its second run has lost a worker."""
    scenario = producers(tmp_path, "page-two", seconds=2, users=6, rate=300)
    with serving(tmp_path, broker.bootstrap, "--scenario", scenario, "--processes", "2") as url:
        tab = open_page(url)
        for _ in range(2):
            start(tab)
            found = verdict(tab)
            assert "all 750 acknowledged records were found" in found["Verification"][0]
            assert len([each for each in found if each.startswith("Worker ")]) == 2
            tab.page.get_by_role("button", name="New", exact=True).click()
            tab.page.locator("input[name='userCount']").wait_for()
