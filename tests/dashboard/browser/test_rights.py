"""The page of rights in a browser, with a broker that has an authorizer: the form that explains, and the acts."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.dashboard.browser.tab import CLUSTER, Tab
from tests.support.dashboard import running_dashboard
from tests.support.secured_broker import SecuredBroker

SECRET = "a-very-secret-password"


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a dashboard of such a broker."""
    broker = SecuredBroker(tmp_path_factory.mktemp("secured"))
    state = tmp_path_factory.mktemp("dash-state")
    try:
        broker.start()
        clusters = state / "clusters.toml"
        clusters.write_text(f'[clusters.{CLUSTER}]\nbootstrap = "{broker.open_bootstrap}"\n')
        options = ["--clusters-file", str(clusters), "--state", str(state / "state")]
        with running_dashboard(options, env={"XDG_CONFIG_HOME": str(state)}) as url:
            yield url
    finally:
        broker.close()


def test_rights_are_changed_and_explained(secured: str, new_tab: Callable[..., Tab]) -> None:
    """If this fails, the page shows what may be done, and cannot be used for it."""
    tab = new_tab(secured)
    tab.open("rights")
    tab.settled()
    values = {"principal": "bob", "operation": "read", "resource": "topic:orders"}
    command = tab.act("Create", values)
    assert command.startswith("broker-cy acls create allow User:bob read topic:orders")
    tab.panel("ACLs").get_by_text("User:bob").wait_for()

    form = tab.page.locator(".explain-form")
    for name, text in {**values, "operation": "reed"}.items():
        form.locator(f"[name={name}]").fill(text)
    form.get_by_role("button", name="Explain").click()
    form.locator(".problem", has_text="'reed' is no operation").wait_for()
    assert form.locator("[name=principal]").input_value() == "bob"
    form.locator("[name=operation]").fill("describe")
    form.get_by_role("button", name="Explain").click()
    answer = tab.panel("Explanation")
    answer.get_by_text("ALLOWED: User:bob describe topic:orders").wait_for()
    answer.get_by_text("because: allow User:bob read topic:orders").wait_for()
    assert "operation=describe" in tab.page.url
    assert tab.violations() == []

    tab.page.locator("section.panel", has=tab.page.get_by_role("heading", name="Users of SCRAM")).get_by_role(
        "button", name="Create"
    ).click()
    dialog = tab.page.locator("dialog.dialog")
    assert dialog.locator("[name=password]").get_attribute("type") == "password"
    for name, text in {"user": "carol", "password": SECRET, "again": SECRET}.items():
        dialog.locator(f"[name={name}]").fill(text)
    dialog.locator("button[type=submit]").click()
    dialog.locator(".affected").wait_for()
    assert SECRET not in dialog.inner_text()
    dialog.locator(".dialog-buttons button").last.click()
    tab.panel("Users of SCRAM").get_by_text("carol").wait_for()
    users = "Users of SCRAM"
    row = {"user": "carol", "password": SECRET, "again": SECRET}
    tab.panel(users).locator("[col-id=_mark] input").last.check()
    command = tab.act("Set password", {**row, "password": f"{SECRET}-2", "again": f"{SECRET}-2"}, panel=users)
    assert command.startswith("broker-cy users alter carol")
    assert SECRET not in command
    # A table that was drawn again has no marks.
    tab.panel(users).locator("[col-id=_mark] input").last.check()
    command = tab.act("Delete marked", typed="carol", panel=users)
    assert command.startswith("broker-cy users delete carol")
    tab.panel(users).get_by_text("carol").wait_for(state="hidden")

    tab.panel("ACLs").locator("[col-id=_mark] input").last.check()
    command = tab.act("Delete marked", panel="ACLs")
    assert command.startswith("broker-cy acls delete")
    tab.panel("ACLs").get_by_text("User:bob").wait_for(state="hidden")
