"""Storage: log directories, the largest topics and replicas, segments, free space with its forecast."""

from __future__ import annotations

from math import nan

import pytest

from broker_cy.admin.topics import NewTopic
from broker_cy.client.errors import ClientError, Failure
from broker_cy.wire.records import Record
from dashboard.collector.rings import Key, Line
from dashboard.pages.storage_space import forecast_of
from tests.dashboard.pages.cluster_kit import log_dirs_of, plant
from tests.dashboard.pages.group_kit import drive, layout_of, seeing
from tests.dashboard.support import VIEWER, Desk
from tests.support.broker import Target

SIZES = {
    1: {("orders", 0): 300, ("orders", 1): 100, ("secret", 0): 600},
    2: {("orders", 0): 300, ("payments", 0): 50},
}
DAY_MS = 86_400_000


def test_topics_and_replicas_of_a_real_broker(broker: Target, topic: str) -> None:
    """If this fails, the page does not show what fills the disk."""

    async def job(desk: Desk) -> None:
        client = desk.hub.session.client
        (await client.topics.create([NewTopic(topic, 1)])).whole()
        await client.records.producer().send(topic, [Record(value=b"x" * 100_000)] * 5, partition=0)
        rows = await desk.rows("largest-replicas", lambda state: "KiB" in str(state["rows"][:1]), filter=topic)
        assert next(iter(rows.values()))["size"] in ("488 KiB", "489 KiB")
        sizes = await desk.rows("topic-sizes", lambda state: topic in str(state["rows"]), filter=topic)
        assert sizes[topic]["size"] in ("488 KiB", "489 KiB")
        parts = await desk.rows("topic-segments", topic=topic)
        assert (parts["0"]["start"], parts["0"]["end"]) == ("0", "5")
        directory = next(iter((await desk.rows("log-directories")).values()))
        assert directory["state"] == "ok"
        assert "%" in directory["free"]
        free = await desk.state("disk-free", lambda state: state["t"])
        assert free["series"][0]["name"] == directory["path"]
        forecast = await desk.rows("disk-forecast")
        assert next(iter(forecast.values()))["path"] == directory["path"]
        assert (await desk.state("unflushed", lambda state: state["t"]))["unit"] == "B"

    drive(broker.bootstrap, job)


def test_directories_that_are_full_or_away(broker: Target) -> None:
    """If this fails, one broker that does not answer hides the directories of all others."""

    async def job(desk: Desk) -> None:
        plant(desk, "log_dirs", log_dirs_of(SIZES, {3: ClientError(Failure.TIMED_OUT, "no answer within 8 s")}))
        state = await desk.state("log-directories")
        cells = [row["cells"] for row in state["rows"]]
        assert [row[1] for row in cells] == ["/data-1", "/data-2", "-"]
        assert cells[0][5] == {"t": "50 B (5%)", "tone": "BAD"}
        assert cells[1][5] == "100 B (10%)"
        assert cells[2][2] == {"t": "no answer within 8 s", "tone": "BAD"}
        assert [row[4] for row in cells] == ["1000 B", "350 B", "-"]
        only = await desk.state("log-directories", broker="2")
        assert [row["cells"][1] for row in only["rows"]] == ["/data-2"]

    drive(broker.bootstrap, job)


def test_sizes_are_of_the_topics_that_a_viewer_may_see(broker: Target) -> None:
    """If this fails, a viewer of some topics learns the names or the size of all others."""

    async def job(desk: Desk) -> None:
        plant(desk, "log_dirs", log_dirs_of(SIZES))
        sizes = await desk.state("topic-sizes")
        assert [(row["id"], row["cells"][1], row["cells"][2]) for row in sizes["rows"]] == [
            ("orders", "700 B", "93%"),
            ("payments", "50 B", "7%"),
        ]
        assert sizes["total"] == 2
        replicas = await desk.state("largest-replicas")
        assert replicas["total"] == 4
        assert "secret" not in str(replicas)
        directories = await desk.rows("log-directories")
        assert [(row["replicas"], row["logs"]) for row in directories.values()] == [("2", "400 B"), ("2", "350 B")]
        with pytest.raises(ClientError, match="may not see topic secret"):
            desk.look("topic-segments", topic="secret")

    drive(broker.bootstrap, job, seeing(VIEWER, topics=("orders", "payments")))


def test_forecast_follows_a_straight_line() -> None:
    """If this fails, the forecast does not show that a disk will be full."""
    key = Key(1, "disk_free_bytes", "/data")
    times = [at * 3_600_000 for at in range(24)]
    falling = [1_000.0 - 10 * at for at in range(24)]
    found = forecast_of(key, times, Line(falling, falling, falling))
    assert found is not None
    assert found.per_day_bytes == pytest.approx(-240)
    assert found.full_in_ms == pytest.approx(770 / 240 * DAY_MS)
    rising = falling[::-1]
    grows = forecast_of(key, times, Line(rising, rising, rising))
    assert grows is not None
    assert grows.full_in_ms is None
    few = [nan] * 20 + falling[:4]
    unknown = forecast_of(key, times, Line(few, few, few))
    assert unknown is not None
    assert (unknown.per_day_bytes, unknown.full_in_ms) == (None, None)
    none = [nan] * 24
    assert forecast_of(key, times, Line(none, none, none)) is None


def test_bad_parameters(broker: Target) -> None:
    """If this fails, a wrong address shows an empty panel instead of an error."""

    async def job(desk: Desk) -> None:
        for channel, params in (
            ("log-directories", {"broker": "x"}),
            ("disk-forecast", {"range": "3h"}),
            ("topic-segments", {}),
            ("largest-replicas", {"sort": "directory"}),
        ):
            with pytest.raises(ClientError):
                desk.look(channel, **params)
        assert "topic-segments" in layout_of(desk, "storage", topic="x", range="1d")
        assert "topic-segments" not in layout_of(desk, "storage")

    drive(broker.bootstrap, job)
