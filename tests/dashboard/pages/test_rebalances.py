"""Rebalances: timeline, totals and table of a range, and the page of one rebalance, from planted and real events."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from broker_cy.admin.own_topics import EVENTS_TOPIC
from broker_cy.client.errors import ClientError
from broker_cy.console.session import now_ms
from broker_cy.metrics.events import Move, Rebalance, Stamped, StaticReplacement, Trigger
from dashboard.pages.rebalance_bars import BARS_MAX, Bar, timeline
from dashboard.pages.rebalance_rows import LABEL_CHARACTERS_MAX, labels
from tests.dashboard.collector.planted import event_records, start_with
from tests.dashboard.pages.group_kit import drive, layout_of, seeing
from tests.dashboard.support import ADMIN, VIEWER, Desk, text_of
from tests.support.broker import QUICK, BrokerProcess
from tests.support.confluent import assigned, close_consumer, new_consumer
from tests.support.read_group import with_group

HOUR_MS = 3_600_000


class Planted:
    """A broker with events of two rebalances of `shop`, one of `bank`, and a replaced static member."""

    def __init__(self, broker: BrokerProcess) -> None:
        self.bootstrap = ""
        self.until_ms = now_ms() // 1_000 * 1_000
        self.first_ms = self.until_ms - 2 * HOUR_MS
        self.second_ms = self.until_ms - HOUR_MS
        self.range = f"{self.until_ms - 3 * HOUR_MS}-{self.until_ms}"
        trigger = Trigger("session_timeout", "worker-2-abc", None, "worker-2", "/10.0.0.2")
        moves = [
            Move("orders", 1, "worker-2-abc", "worker-1-abc", 9_000),
            Move("orders", 0, "worker-1-abc", "worker-1-abc", 400),
            Move("payments", 0, None, "worker-1-abc", -1),
        ]
        events = [
            Stamped(
                self.first_ms,
                1,
                Rebalance(
                    "shop",
                    7,
                    "range",
                    "stable",
                    self.first_ms - 3_500,
                    3_000,
                    500,
                    3_500,
                    2,
                    1,
                    [trigger],
                    moves,
                    3,
                    4,
                    9_000,
                ),
            ),
            Stamped(
                self.first_ms + 1,
                1,
                Rebalance(
                    "bank",
                    1,
                    "range",
                    "stable",
                    self.first_ms,
                    1,
                    0,
                    1,
                    0,
                    1,
                    [Trigger("join", "<b>x</b>\x1b")],
                    [],
                    0,
                    0,
                    0,
                ),
            ),
            Stamped(
                self.second_ms,
                1,
                Rebalance(
                    "shop",
                    8,
                    "range",
                    "stable",
                    self.second_ms - 20,
                    15,
                    5,
                    20,
                    1,
                    2,
                    [Trigger("join", "worker-3-abc", None, "worker-3", "/10.0.0.3")],
                    [Move("orders", 1, "worker-1-abc", "worker-3-abc", 20)],
                    1,
                    2,
                    20,
                ),
            ),
            Stamped(self.second_ms + 5, 1, StaticReplacement("shop", 8, "till-4", "old", "new", "till", "/10.0.0.4")),
        ]
        start_with(broker, {EVENTS_TOPIC: event_records(events)})
        self.bootstrap = broker.bootstrap


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Planted]:
    broker = BrokerProcess(tmp_path_factory.mktemp("rebalances-broker"), QUICK)
    try:
        yield Planted(broker)
    finally:
        broker.close()


def bars(state: dict[str, Any], row: str) -> list[dict[str, Any]]:
    return [bar for bar in state["bars"] if bar["row"] == row]


def test_the_timeline_of_a_group_has_cause_phases_and_stalls(planted: Planted) -> None:
    """If this fails, users cannot see why a group stopped reading, in which phase, or which partition stalled."""

    async def job(desk: Desk) -> None:
        state = await desk.state("rebalances-timeline", lambda state: state["bars"], group="shop", range=planted.range)
        assert state["order"] == ["rebalance", "join", "sync", "orders-1", "orders-0"]
        first, second = bars(state, "rebalance")
        assert (first["name"], first["tone"], second["name"]) == ("cause: session timeout", "WARN", "cause: join")
        assert (first["from"], first["to"]) == (planted.first_ms - 3_500, planted.first_ms)
        assert "worker-2 10.0.0.2" in first["text"]
        join, sync = bars(state, "join")[0], bars(state, "sync")[0]
        assert (join["to"] - join["from"], sync["from"] == join["to"], sync["to"] - sync["from"]) == (3_000, True, 500)
        stall, later = bars(state, "orders-1")
        assert (stall["from"], stall["to"], stall["tone"]) == (planted.first_ms - 9_000, planted.first_ms, "BAD")
        assert (stall["name"], later["name"]) == ("stall over 5.0 s", "stall")
        assert stall["href"] == f"/c/test/rebalance?group=shop&at={planted.first_ms}"
        # Three hours in 250 parts: a stall of 20 ms would be invisible.
        assert state["least_ms"] == 43_200
        assert "bars of less than 43.2 s" in state["note"]

    drive(planted.bootstrap, job)


def test_the_timeline_of_all_groups_has_a_row_for_each(planted: Planted) -> None:
    """If this fails, users do not find the group that rebalances all the time."""

    async def job(desk: Desk) -> None:
        state = await desk.state("rebalances-timeline", lambda state: state["bars"], range=planted.range)
        assert state["order"] == ["shop", "bank"]
        assert len(bars(state, "shop")) == 2
        (bank,) = bars(state, "bank")
        assert "\x1b" not in bank["text"]

    drive(planted.bootstrap, job)


def test_totals_and_table_of_a_range(planted: Planted) -> None:
    """If this fails, the totals do not show how long a group did not read."""

    async def job(desk: Desk) -> None:
        totals = await desk.state(
            "rebalances-totals", lambda state: state["facts"][0][1] == "2", group="shop", range=planted.range
        )
        shown = {name: value for name, value, _ in totals["facts"]}
        assert shown["time in rebalances"] == "3.5 s"
        assert (shown["partitions moved"], shown["longest stall"]) == ("4", "9.0 s")
        assert (shown["by session timeout"], shown["by join"], shown["static replacements"]) == ("1", "1", "1")
        looker = desk.look("rebalances", group="shop", range=planted.range)
        state = await looker.until(lambda state: state["found"] == 3)
        rows = [[text_of(cell) for cell in row["cells"]] for row in state["rows"]]
        assert [row[2] for row in rows] == ["static replacement", "join", "session timeout"]
        assert rows[0][3:5] == ["till-4", "10.0.0.4"]
        assert rows[2][0] == f"@{planted.first_ms}"
        assert rows[2][3:] == ["worker-2", "10.0.0.2", "3.5 s", "9.0 s", "3", "3.0 s", "500 ms", "2 → 1", "4", "7"]
        assert state["rows"][2]["cells"][0]["href"] == f"/c/test/rebalance?group=shop&at={planted.first_ms}"
        longest = await desk.rows(
            "rebalances", lambda state: state["rows"], range=planted.range, sort="stall", desc="1"
        )
        assert [row["stall"] for row in longest.values()] == ["9.0 s", "20 ms", "0 ms", "-"]
        found = await desk.rows("rebalances", lambda state: state["total"] == 4, range=planted.range, filter="10.0.0.3")
        assert [row["member"] for row in found.values()] == ["worker-3"]
        # Nothing happened in the last ten minutes.
        assert (await desk.state("rebalances"))["total"] == 0

    drive(planted.bootstrap, job)


def test_one_rebalance_with_its_moves_the_longest_stall_first(planted: Planted) -> None:
    """If this fails, users cannot tell which partitions were not read, and who took them."""

    async def job(desk: Desk) -> None:
        about: Any = {"group": "shop", "at": str(planted.first_ms)}
        facts = {name: value for name, value, _ in (await desk.state("rebalance-facts", **about))["facts"]}
        assert (facts["started"], facts["cause"]) == (f"@{planted.first_ms - 3_500}", "session timeout")
        assert (facts["members"], facts["kept"], facts["longest stall"]) == ("2 → 1", "4", "9.0 s")
        moves = await desk.rows("rebalance-moves", **about)
        assert [(key, row["stall"]) for key, row in moves.items()] == [
            ("orders-1", "9.0 s"),
            ("orders-0", "400 ms"),
            ("payments-0", "no owner before"),
        ]
        assert (moves["orders-1"]["source"], moves["payments-0"]["source"]) == ("worker-2-abc", "-")
        (trigger,) = (await desk.rows("rebalance-triggers", **about)).values()
        assert (trigger["reason"], trigger["client"], trigger["member"]) == (
            "session timeout",
            "worker-2",
            "worker-2-abc",
        )
        state = await desk.state("rebalance-timeline", **about)
        assert state["from_ms"] < planted.first_ms - 9_000 < planted.first_ms < state["to_ms"]
        assert "no rebalance at 5 ms" in await desk.look("rebalance-facts", group="shop", at="5").failed()

    drive(planted.bootstrap, job)


def test_a_limited_viewer_sees_their_groups_and_topics_only(planted: Planted) -> None:
    """If this fails, names and numbers of partitions are sent to accounts that may not see them."""

    async def job(desk: Desk) -> None:
        desk.identity = seeing(VIEWER, topics=("payments",), groups=("shop",))
        with pytest.raises(ClientError, match="may not see group bank"):
            desk.look("rebalances", group="bank")
        lookers = [
            desk.look(name, range=planted.range) for name in ("rebalances-timeline", "rebalances", "rebalances-totals")
        ]
        lookers += [
            desk.look(name, group="shop", at=str(planted.first_ms))
            for name in ("rebalance-facts", "rebalance-moves", "rebalance-timeline")
        ]
        timelines = await lookers[0].until(lambda state: state["bars"])
        assert timelines["order"] == ["shop"]
        table = await lookers[1].until(lambda state: state["rows"])
        row = [text_of(cell) for cell in table["rows"][2]["cells"]]
        # One of three partitions is visible; it did not stall.
        assert (row[6], row[7], row[11]) == ("0 ms", "1", "-")
        await lookers[2].until(lambda state: state["facts"])
        facts = await lookers[3].until(lambda state: state["facts"])
        assert "kept" not in {name for name, _, _ in facts["facts"]}
        moves = await lookers[4].until(lambda state: state["rows"])
        assert [each["id"] for each in moves["rows"]] == ["payments-0"]
        await lookers[5].until(lambda state: state["bars"])
        everything = str([looker.states for looker in lookers])
        assert "orders" not in everything
        assert "bank" not in everything

    drive(planted.bootstrap, job)


@pytest.mark.parametrize(
    ("channel", "params", "said"),
    [
        ("rebalances", {"range": "yesterday"}, "range 'yesterday'"),
        ("rebalances-timeline", {"topic": "x"}, "unknown parameter 'topic'"),
        ("rebalance-facts", {"group": "g"}, "'at' is missing"),
        ("rebalance-facts", {"group": "g", "at": "-5"}, "a time in ms"),
        ("rebalance-moves", {"group": "g", "at": "9" * 16}, "a time in ms"),
    ],
)
def test_bad_parameters_are_refused(planted: Planted, channel: str, params: dict[str, str], said: str) -> None:
    """If this fails, a wrong link shows an error without a reason."""

    async def job(desk: Desk) -> None:
        with pytest.raises(ClientError, match=said):
            desk.look(channel, **params)

    drive(planted.bootstrap, job)


def test_a_rebalance_appears_while_the_page_is_open(planted: Planted) -> None:
    """If this fails, users have to reload the page to see a new rebalance."""

    async def job(desk: Desk) -> None:
        name = "live-group"
        await with_group(desk.hub.session.client, name)
        looker = desk.look("rebalances", group=name)
        assert (await looker.until(lambda state: True))["total"] == 0
        first = new_consumer(planted.bootstrap, name, **{"client.id": "first"})
        second = new_consumer(planted.bootstrap, name, **{"client.id": "second"})
        try:
            first.subscribe([name])
            await assigned([first])
            second.subscribe([name])
            await assigned([first, second])
            state = await looker.until(lambda state: "1 → 2" in str(state["rows"]))
            row = [text_of(cell) for cell in state["rows"][0]["cells"]]
            assert (row[1], row[3], row[10]) == (name, "second", "1 → 2")
            # The rebalance is also a mark on the chart of the group's lag.
            chart = await desk.state("group-lag-records", lambda state: state["marks"], group=name)
            assert "generation" in chart["marks"][-1][1]
        finally:
            for consumer in (first, second):
                await asyncio.to_thread(close_consumer, consumer)

    drive(planted.bootstrap, job)


def test_pages_are_built_with_their_links(planted: Planted) -> None:
    """If this fails, a shared link to a range or a group shows an error."""

    async def job(desk: Desk) -> None:
        assert "Rebalances of shop" in layout_of(
            desk, "rebalances", group="shop", range="7d", **{"history-sort": "stall"}
        )
        assert "A row for each group" in layout_of(desk, "rebalances")
        assert "Partitions that moved" in layout_of(desk, "rebalance", group="shop", at="5")

    drive(planted.bootstrap, job, ADMIN)


def test_labels_are_short_and_different() -> None:
    """If this fails, a long name leaves no room for the bars, or two partitions share a row."""
    long = ["a" * 40 + f"{middle}" + "b" * 40 for middle in "xy"]
    found = labels([*long, "orders-0"])
    assert found["orders-0"] == "orders-0"
    assert len(found[long[0]]) == LABEL_CHARACTERS_MAX + 1
    assert len(set(found.values())) == 3


def test_a_timeline_is_bounded() -> None:
    """If this fails, a group that rebalances all day makes a frame of megabytes."""
    many = [Bar("r", "n", at, at + 1, "") for at in range(BARS_MAX + 10)]
    state = timeline(many, ["r"], 0, BARS_MAX)
    assert len(state["bars"]) == BARS_MAX
    assert state["bars"][0]["from"] == 10
