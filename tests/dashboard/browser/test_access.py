"""The pages of ACLs, SCRAM users, denied requests, quotas and tokens in a browser, with a broker that has an authorizer
and tokens: the forms that explain, and the acts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.dashboard.browser.tab import CLUSTER, Tab
from tests.support.dashboard import running_dashboard
from tests.support.sasl_broker import ADMIN_PASSWORD, ALICE, client_settings
from tests.support.secured_broker import SecuredBroker

pytestmark = pytest.mark.full

SECRET = "a-very-secret-password"
WITH_LOGIN = "login"


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a dashboard of such a broker."""
    broker = SecuredBroker(tmp_path_factory.mktemp("secured"))
    state = tmp_path_factory.mktemp("dash-state")
    try:
        broker.start()
        clusters = state / "clusters.toml"
        login = "".join(f"{name} = '{text}'\n" for name, text in client_settings("admin", ADMIN_PASSWORD).items())
        clusters.write_text(
            f'[clusters.{CLUSTER}]\nbootstrap = "{broker.open_bootstrap}"\n'
            f'[clusters.{WITH_LOGIN}]\nbootstrap = "{broker.bootstrap}"\n{login}'
        )
        options = ["--clusters-file", str(clusters), "--state", str(state / "state")]
        with running_dashboard(options, env={"XDG_CONFIG_HOME": str(state)}) as url:
            yield url
    finally:
        broker.close()


def test_acls_and_users_are_changed_and_explained(secured: str, new_tab: Callable[..., Tab]) -> None:
    """If this fails, the pages show ACLs and SCRAM users, but cannot change them."""
    tab = new_tab(secured)
    tab.open("acls")
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

    tab.panel("ACLs").locator("[col-id=_mark] input").last.check()
    command = tab.act("Delete marked", panel="ACLs")
    assert command.startswith("broker-cy acls delete")
    tab.panel("ACLs").get_by_text("User:bob").wait_for(state="hidden")

    tab.open("scram-users")
    tab.settled()
    assert tab.violations() == []
    tab.page.get_by_role("button", name="Create", exact=True).click()
    dialog = tab.page.locator("dialog.dialog")
    assert dialog.locator("[name=password]").get_attribute("type") == "password"
    for name, text in {"user": "carol", "password": SECRET, "again": SECRET}.items():
        dialog.locator(f"[name={name}]").fill(text)
    dialog.locator("button[type=submit]").click()
    dialog.locator(".affected").wait_for()
    assert SECRET not in dialog.inner_text()
    dialog.locator(".dialog-buttons button").last.click()
    tab.panel("SCRAM users").get_by_text("carol").wait_for()
    users = "SCRAM users"
    row = {"user": "carol", "password": SECRET, "again": SECRET}
    tab.panel(users).locator("[col-id=_mark] input").last.check()
    command = tab.act("Set password", {**row, "password": f"{SECRET}-2", "again": f"{SECRET}-2"}, panel=users)
    assert command.startswith("broker-cy users alter carol")
    assert SECRET not in command
    # A redrawn table has no marks.
    tab.panel(users).locator("[col-id=_mark] input").last.check()
    command = tab.act("Delete marked", typed="carol", panel=users)
    assert command.startswith("broker-cy users delete carol")
    tab.panel(users).get_by_text("carol").wait_for(state="hidden")

    tab.open("denied-requests")
    tab.settled()
    assert tab.violations() == []


def test_quotas_are_set_explained_changed_and_removed(secured: str, new_tab: Callable[..., Tab]) -> None:
    """If this fails, the page shows quotas, but cannot change them."""
    tab = new_tab(secured)
    tab.open("quotas")
    tab.settled()
    values = {"user": "bob", "key": "producer_byte_rate", "value": "10M"}
    command = tab.act("Set", values)
    assert command.startswith("broker-cy quotas set --user bob producer_byte_rate=10485760")
    quotas = tab.panel("Quotas")
    quotas.get_by_text("10.0 MiB/s").wait_for()

    form = tab.page.locator(".explain-form")
    form.locator("[name=ip]").fill("nowhere")
    form.get_by_role("button", name="Show").click()
    form.locator(".problem", has_text="nowhere").wait_for()
    form.locator("[name=ip]").fill("")
    form.locator("[name=user]").fill("bob")
    form.get_by_role("button", name="Show").click()
    tab.panel("Quotas in effect").get_by_text("producer_byte_rate 10.0 MiB/s: set for user bob").wait_for()
    assert tab.violations() == []

    quotas.locator("[col-id=_mark] input").last.check()
    command = tab.act("Change marked", {"value": "1M"}, panel="Quotas")
    assert command.startswith("broker-cy quotas set --user bob producer_byte_rate=1048576")
    quotas.get_by_text("1.0 MiB/s").wait_for()
    quotas.locator("[col-id=_mark] input").last.check()
    command = tab.act("Remove marked", panel="Quotas")
    assert command.startswith("broker-cy quotas remove --user bob producer_byte_rate")
    quotas.get_by_text("bob").wait_for(state="hidden")


def test_tokens_are_created_renewed_and_ended(secured: str, new_tab: Callable[..., Tab]) -> None:
    """If this fails, the HMAC of a new token cannot be copied, or stays on the page after its dialog."""
    tab = new_tab(secured)
    tab.page.goto(f"{secured.rstrip('/')}/c/{WITH_LOGIN}/delegation-tokens")
    tab.settled()
    tab.page.get_by_role("button", name="Create", exact=True).click()
    dialog = tab.page.locator("dialog.dialog")
    for name, text in {"owner": ALICE, "renewers": "admin", "lifetime": "1d"}.items():
        dialog.locator(f"[name={name}]").fill(text)
    dialog.locator("button[type=submit]").click()
    dialog.locator(".affected").wait_for()
    dialog.locator(".dialog-buttons button").last.click()
    secret = dialog.locator(".revealed code").inner_text()
    assert len(secret) == 88
    assert tab.violations() == []
    dialog.get_by_role("button", name="Close").click()
    dialog.wait_for(state="hidden")
    tokens = tab.panel("Delegation tokens")
    tokens.get_by_text(f"User:{ALICE}").wait_for()
    assert secret not in tab.page.content()
    stored = tab.page.evaluate("JSON.stringify([{...localStorage}, {...sessionStorage}, location.href])")
    assert secret not in stored

    tokens.locator("[col-id=_mark] input").last.check()
    assert " --for 3600000ms" in tab.act("Renew marked", {"period": "1h"})
    tokens.locator("[col-id=_mark] input").last.check()
    command = tab.act("Expire marked", {"period": ""}, typed=ALICE)
    assert command.startswith("broker-cy tokens expire ")
    tokens.get_by_text(f"User:{ALICE}").wait_for(state="hidden")
