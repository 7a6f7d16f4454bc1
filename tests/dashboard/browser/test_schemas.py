"""The pages of schemas in a browser, with a schema registry: light and dark, wide and narrow, and the acts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.dashboard.browser.tab import CLUSTER, Tab
from tests.support.broker import QUICK, BrokerProcess
from tests.support.dashboard import running_dashboard
from tests.support.registry import RegistryProcess, running_registry
from tests.support.schema_records import BAD, OLD, TWO, framed, new_topic, produce, registered

pytestmark = [pytest.mark.full, pytest.mark.xdist_group("browser")]

SUBJECT = "orders-value"


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[RegistryProcess, BrokerProcess]]:
    """A registry with subjects of all types, and records of one of them."""
    broker = BrokerProcess(tmp_path_factory.mktemp("schemas-broker"), QUICK)
    try:
        broker.start()
        with running_registry(broker.bootstrap, tmp_path_factory.mktemp("schemas-registry")) as found:
            new_topic(broker.bootstrap, "orders", 1)
            one, two = registered(found, SUBJECT, OLD, TWO)
            outer = '{"type":"record","name":"O","fields":[{"name":"r","type":"R"}]}'
            reference = {"name": "R", "subject": SUBJECT, "version": 2}
            found.register("shipments-value", outer, references=[reference])
            found.register(
                "clicks-value", 'syntax = "proto3"; message Click { string url = 1; }', schemaType="PROTOBUF"
            )
            produce(broker.bootstrap, "orders", [framed(one, OLD, {"x": 1}), framed(two, TWO, {"x": 1, "y": 2})])
            yield found, broker
    finally:
        broker.close()


@pytest.fixture(scope="module")
def schemas(registry: tuple[RegistryProcess, BrokerProcess], tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a dashboard."""
    state = tmp_path_factory.mktemp("dash-state")
    clusters = state / "clusters.toml"
    clusters.write_text(
        f'[clusters.{CLUSTER}]\nbootstrap = "{registry[1].bootstrap}"\nregistry = "{registry[0].url}"\n'
    )
    options = ["--clusters-file", str(clusters), "--state", str(state / "state")]
    with running_dashboard(options, env={"XDG_CONFIG_HOME": str(state)}) as url:
        yield url


@pytest.mark.parametrize(("is_dark", "width"), [(False, 1280), (True, 390)], ids=["light", "dark-narrow"])
def test_the_pages_have_no_fault(schemas: str, new_tab: Callable[..., Tab], is_dark: bool, width: int) -> None:
    """If this fails, a page of schemas has a panel without data, or a text that some users cannot read."""
    tab = new_tab(schemas, dark=is_dark, width=width)
    for page, query in (
        ("schemas", {}),
        ("schema", {"subject": SUBJECT}),
        ("schema", {"subject": SUBJECT, "version": "2", "against": "1"}),
        ("schema", {"subject": "shipments-value", "version": "1"}),
    ):
        tab.open(page, **query)
        assert set(tab.settled().values()) <= {"ok", "empty"}
        assert tab.violations() == []
        assert not tab.overflows()


def test_a_schema_is_loaded_tried_and_registered(
    schemas: str, registry: tuple[RegistryProcess, BrokerProcess], new_tab: Callable[..., Tab], tmp_path: Path
) -> None:
    """If this fails, a user cannot load a schema from a file, or does not see what it would break."""
    tab = new_tab(schemas)
    tab.open("schemas")
    tab.settled()
    tab.panel("Subjects").get_by_role("link", name=SUBJECT).click()
    tab.page.wait_for_selector("h1:has-text('Subject orders-value')")
    tab.settled()
    file = tmp_path / "order.avsc"
    file.write_text(BAD)
    tab.page.get_by_role("button", name="Register", exact=True).click()
    dialog = tab.page.locator("dialog.dialog")
    dialog.locator("#file-text").set_input_files(str(file))
    tab.page.wait_for_function("() => document.querySelector('#field-text').value.includes('record')")
    assert tab.violations() == []
    dialog.locator("button[type=submit]").click()
    dialog.locator(".affected", has_text="1 of 2 records could not be read").wait_for()
    dialog.get_by_text("First record that breaks: orders-0 offset 0").wait_for()
    assert tab.violations() == []
    dialog.locator("#typed").fill(SUBJECT)
    dialog.locator(".dialog-buttons button").last.click()
    dialog.wait_for(state="hidden")
    assert registry[0].get(f"/subjects/{SUBJECT}/versions") == [1, 2, 3]
    versions = tab.panel("Versions")
    versions.get_by_role("link", name="3", exact=True).wait_for()
    # No schema refers to this one.
    tab.open("schema", subject="clicks-value")
    tab.settled()
    command = tab.act("Delete subject", {"kind": "can be restored"})
    assert command.startswith("broker-cy schemas delete clicks-value --registry")
    tab.page.wait_for_url("**/schemas")
    assert "clicks-value" not in registry[0].get("/subjects")


def test_the_versions_of_a_subject_are_compared(schemas: str, new_tab: Callable[..., Tab]) -> None:
    """If this fails, the form of two versions leads nowhere."""
    tab = new_tab(schemas)
    tab.open("schema", subject=SUBJECT)
    form = tab.page.locator(".explain-form")
    form.locator("[name=version]").fill("2")
    form.locator("[name=against]").fill("1")
    form.get_by_role("button", name="Show").click()
    tab.panel("Differences").get_by_text('+      "name": "y",').wait_for()
    tab.panel("Incompatible differences").get_by_text("Each version reads").wait_for()
