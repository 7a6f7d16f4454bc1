"""Records by the schemas of a registry in a browser, light and dark."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.dashboard.browser.tab import CLUSTER, Tab
from tests.support.broker import QUICK, BrokerProcess
from tests.support.dashboard import running_dashboard
from tests.support.registry import running_registry
from tests.support.schema_records import TWO, framed, produce, registered
from tests.support.topics import create_topic

pytestmark = [pytest.mark.full, pytest.mark.xdist_group("browser")]


@pytest.fixture(scope="module")
def dashboard_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a dashboard of a cluster with a registry, and a topic with records."""
    broker = BrokerProcess(tmp_path_factory.mktemp("records-broker"), QUICK)
    try:
        broker.start()
        with running_registry(broker.bootstrap, tmp_path_factory.mktemp("records-registry")) as registry:
            create_topic(broker.bootstrap, "orders", 1)
            (schema_id,) = registered(registry, "orders-value", TWO)
            values = [framed(schema_id, TWO, {"x": n, "y": 2 * n}) for n in range(20)]
            produce(broker.bootstrap, "orders", [*values, framed(schema_id, TWO, {"x": 1, "y": 1}) + b"!"])
            state = tmp_path_factory.mktemp("dash-state")
            clusters = state / "clusters.toml"
            clusters.write_text(
                f'[clusters.{CLUSTER}]\nbootstrap = "{broker.bootstrap}"\nregistry = "{registry.url}"\n'
            )
            options = ["--clusters-file", str(clusters), "--state", str(state / "state")]
            with running_dashboard(options, env={"XDG_CONFIG_HOME": str(state)}) as url:
                yield url
    finally:
        broker.close()


@pytest.mark.parametrize(("is_dark", "width"), [(False, 1280), (True, 390)], ids=["light", "dark-narrow"])
def test_a_record_names_its_schema(dashboard_url: str, new_tab: Callable[..., Tab], is_dark: bool, width: int) -> None:
    """If this fails, users see the bytes of a record, or not by which schema it was decoded."""
    tab = new_tab(dashboard_url, dark=is_dark, width=width)
    tab.open("records", topic="orders", path="$.y = 38", **{"from": "beginning"})
    assert set(tab.settled().values()) <= {"ok", "empty"}
    # On a narrow screen the values are beyond the edge.
    if width > 1_000:
        tab.page.locator(".ag-row", has_text='{"x": 19, "y": 38}').first.wait_for()
    assert tab.violations() == []
    tab.page.locator(".ag-row a").first.click()
    dialog = tab.page.locator("dialog.record")
    dialog.get_by_text("AVRO schema 1, orders-value version 1").wait_for()
    assert '"y": 38' in dialog.locator("pre").last.inner_text()
    assert tab.violations() == []
    assert not tab.overflows()
    tab.open("records", topic="orders", **{"from": "20"})
    tab.settled()
    tab.page.locator(".ag-row a").first.click()
    dialog.get_by_text("no record of AVRO schema 1").wait_for()
    assert dialog.locator("pre").last.inner_text().startswith("00000000  00 00 00 00 01")
