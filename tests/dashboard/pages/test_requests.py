"""Requests and clients: figures by API and phase, the heat map, connections, and access to them."""

from __future__ import annotations

from math import nan
from typing import Any

import pytest

from broker_cy.admin.topics import NewTopic
from broker_cy.client.errors import ClientError
from broker_cy.metrics.sample import Api, Connection, Sample, Times
from broker_cy.wire.records import Record
from dashboard.collector.holdings import recent
from dashboard.collector.rings import Line
from dashboard.pages.clients import clients_of
from dashboard.pages.request_tables import range_row
from tests.dashboard.pages.group_kit import drive, layout_of, seeing
from tests.dashboard.support import VIEWER, Desk
from tests.support.broker import Target


async def produce(desk: Desk, topic: str) -> None:
    client = desk.hub.session.client
    (await client.topics.create([NewTopic(topic, 1)])).whole()
    # Enough that Produce is among the busiest APIs.
    for _ in range(50):
        await client.records.producer().send(topic, [Record(value=b"x" * 1_000)], partition=0)


def test_apis_and_phases_of_the_last_seconds(broker: Target, topic: str) -> None:
    """If this fails, users do not see which requests are slow, or in which phase."""

    async def job(desk: Desk) -> None:
        await produce(desk, topic)
        rows = await desk.rows("apis", lambda state: "Produce" in {row["id"] for row in state["rows"]})
        assert rows["Produce"]["errors"] == "0"
        assert rows["Produce"]["p99"].endswith("s")
        phases = await desk.rows("api-phases", lambda state: len(state["rows"]) > 3, api="Produce")
        assert {"queue", "handler", "send", "total"} <= phases.keys()
        assert int(phases["total"]["count"]) >= 1
        assert phases["total"]["share"] == "100%"
        facts = {name for name, _, _ in (await desk.state("process"))["facts"]}
        assert {"CPU", "memory", "files"} <= facts

    drive(broker.bootstrap, job)


def test_heat_map_and_rates_over_a_range(broker: Target, topic: str) -> None:
    """If this fails, a high latency of an hour ago cannot be found."""

    async def job(desk: Desk) -> None:
        await produce(desk, topic)

        def has_produce(state: Any) -> bool:
            return any("Produce" in each["name"] for each in state["series"]) and state["t"]

        whole = await desk.state("request-heat", has_produce, range="1h")
        assert all(" " not in each["name"] for each in whole["series"])
        assert len(whole["v"]) == len(whole["series"])
        assert all(len(values) == len(whole["t"]) for values in whole["v"])
        phases = await desk.state("request-heat", has_produce, range="1h", phases="1")
        assert "Produce handler" in {each["name"] for each in phases["series"]}
        one = await desk.state("request-heat", lambda state: state["series"], range="1h", api="Produce")
        assert next(each["name"] for each in one["series"]) == "total"
        rows = await desk.rows("apis-range", lambda state: "Produce" in str(state["rows"]), range="1h")
        assert rows["Produce"]["p99"].endswith("s")
        rates = await desk.state("api-rates", lambda state: "Produce" in str(state["series"]), range="1h")
        assert rates["unit"] == "/s"
        lines = await desk.state("api-latency", lambda state: state["series"], range="1h", api="Produce")
        assert lines["series"][0]["name"] == "total"

    drive(broker.bootstrap, job)


def test_connections_by_client_with_their_share(broker: Target, topic: str) -> None:
    """If this fails, users cannot find the client that causes the traffic."""

    async def job(desk: Desk) -> None:
        await produce(desk, topic)
        rows = await desk.rows("connections", lambda state: "dashboard" in str(state["rows"]))
        first = next(iter(rows.values()))
        assert first["host"] == "127.0.0.1"
        assert first["listener"]
        clients = await desk.rows("clients", lambda state: "dashboard" in str(state["rows"]))
        assert clients["dashboard"]["share"].endswith("%")
        facts = {name: value for name, value, _ in (await desk.state("connection-counts"))["facts"]}
        assert int(facts["open"]) >= 1
        changed = await desk.state("connections-changed", lambda state: state["t"])
        assert {each["name"] for each in changed["series"]} == {"opened", "closed"}

    drive(broker.bootstrap, job)


@pytest.mark.parametrize("limits", [{"topics": ("orders*",)}, {"groups": ("billing",)}])
def test_connections_are_hidden_from_those_who_see_a_part(broker: Target, limits: Any) -> None:
    """If this fails, a viewer of some topics can read the client ids and addresses of all clients."""

    async def job(desk: Desk) -> None:
        for channel in ("connections", "clients"):
            looker = desk.look(channel)
            assert "your account may see only some topics or groups" in await looker.failed()
            assert looker.states[-1] is None
        page = layout_of(desk, "clients")
        assert "your account may see only some topics or groups" in page
        assert '"channel": "connections"' not in page
        assert (await desk.state("connection-counts"))["facts"]

    drive(broker.bootstrap, job, seeing(VIEWER, **limits))


def test_bad_parameters(broker: Target) -> None:
    """If this fails, a wrong address shows an empty panel instead of an error."""

    async def job(desk: Desk) -> None:
        for channel, params in (
            ("api-phases", {}),
            ("api-latency", {"range": "1h"}),
            ("request-heat", {"range": "yesterday"}),
            ("request-heat", {"broker": "one"}),
            ("apis", {"broker": "-1"}),
            ("apis-range", {"range": "5-1"}),
            ("process", {"api": "Produce"}),
        ):
            with pytest.raises(ClientError):
                desk.look(channel, **params)
        assert "apis-range" in layout_of(desk, "requests", range="1h", api="Fetch", phases="1")
        assert "Phases of Produce" in layout_of(desk, "requests")

    drive(broker.bootstrap, job)


def test_figures_of_a_range_are_those_of_all_requests() -> None:
    """If this fails, the mean latency of a range is wrong as soon as the rate changes."""
    requests = Line([1, 2, nan], [1, 5, nan], [1, 3, nan])
    times = Line([90, 10, nan], [100, 20, nan], [100, 20, nan])
    row = range_row("Produce", requests, None, times)
    assert (row.per_s, row.most_per_s, row.errors_per_s) == (2, 5, 0)
    # One request of 100 us for three of 20 us.
    assert row.mean_us == pytest.approx(40)
    assert row.p99_us == 100
    none = range_row("Fetch", Line([0], [0], [0]), Line([0], [0], [0]), Line([nan], [nan], [nan]))
    assert (none.mean_us, none.p99_us) == (None, None)


def test_samples_of_several_brokers_are_not_mixed() -> None:
    """If this fails, rates of a cluster of three brokers are a third of their real value, and quantiles belong to no
    broker.
    """
    samples = [
        Sample(broker=at % 3 + 1, time_ms=at, apis={"Produce": Api(1, {}, 0, 0, {"total": Times(1, at, at, at, at)})})
        for at in range(60)
    ]
    assert [sample.time_ms for sample in recent(samples, 2, 3)] == [52, 55, 58]
    assert {sample.broker for sample in recent(samples, None)} == {1}
    assert recent(samples, 7) == []
    assert recent([], None) == []


def test_clients_are_summed_up_over_connections_and_hosts() -> None:
    """If this fails, a noisy client with many small connections is not found."""
    connections = [
        Connection("a", "app", "h1", "L", 5, 10, 300, 100),
        Connection("b", "app", "h2", "L", 5, 20, 300, 100),
        Connection("c", "other", "h1", "L", 5, 1, 100, 100),
    ]
    app, other = clients_of(connections)
    assert (app.connections, app.requests, app.in_bytes, app.out_bytes, app.share) == (2, 30, 600, 200, "80%")
    assert app.hosts == {"h1", "h2"}
    assert other.share == "20%"
