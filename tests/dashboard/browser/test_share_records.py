"""The acts on records of a share group in flight, in the browser."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.dashboard.browser.tab import Tab
from tests.support.dashboard import running_dashboard
from tests.support.share_holder import GROUP, TOPIC, holding

pytestmark = [pytest.mark.full, pytest.mark.xdist_group("browser")]


@pytest.fixture
def dashboard(tmp_path: Path) -> Iterator[str]:
    """The address of a dashboard whose cluster has a share group that holds records."""
    with holding(tmp_path / "broker", lock_s=600) as target:
        clusters = tmp_path / "clusters.toml"
        clusters.write_text(f'[clusters.main]\nbootstrap = "{target.bootstrap}"\n')
        with running_dashboard(
            ["--clusters-file", str(clusters), "--state", str(tmp_path / "state")],
            env={"XDG_CONFIG_HOME": str(tmp_path)},
        ) as url:
            yield url


def test_records_are_rejected_redriven_and_released(dashboard: str, new_tab: Callable[..., Tab]) -> None:
    """If this fails, records that hang, or that no consumer can process, cannot be handled from the dashboard; or
    others than the marked ones are changed.
    """
    tab = new_tab(dashboard)
    tab.open("group", group=GROUP)
    tab.settled()
    tab.page.wait_for_selector("text=acquired")
    records = tab.panel("Records in flight")

    def mark(state: str) -> tuple[int, int]:
        """Mark the first range in a state; returns its offsets."""
        row = records.locator("[role=row]").filter(has_text=state).first
        row.wait_for()
        row.locator("[col-id=_mark] input").check()
        first, last = (row.locator(f"[col-id={each}]").inner_text() for each in ("first", "last"))
        return int(first.replace(",", "")), int(last.replace(",", ""))

    first, last = mark("acquired")
    assert last > first
    command = tab.act("Release marked")
    assert f"groups release {GROUP} --records {TOPIC}:0:{first}-{last}" in command
    records.locator("[role=row]").filter(has_text="available").first.wait_for()
    command = tab.act("Redrive by offset", {"records": f"{TOPIC}:0:{first - 1}", "topic": TOPIC})
    assert f"groups redrive {GROUP} --records {TOPIC}:0:{first - 1} --copy-to {TOPIC}" in command
    assert tab.toast().startswith(f"produced 1 record to {TOPIC}")
    # An act removes the marks.
    assert mark("available") == (first, last)
    command = tab.act("Reject marked")
    assert f"groups reject {GROUP} --records {TOPIC}:0:{first}-{last}" in command
    assert tab.toast() == f"rejected {last - first + 1} records of group {GROUP}"
