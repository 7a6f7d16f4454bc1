"""Events with their authors, kinds and fields, and their visibility for users with a limited scope."""

from __future__ import annotations

import pytest

from broker_cy.admin.topics import NewTopic
from broker_cy.client.errors import ClientError
from broker_cy.client.event_text import line_of
from broker_cy.metrics.events import (
    BrokerStarted,
    ConfigChanged,
    GroupEpoch,
    GroupStatus,
    HeldRecords,
    Move,
    Rebalance,
    ShareLeaderChanged,
    Stamped,
    StreamsStatus,
    TopicCreated,
    Trigger,
)
from dashboard.collector.charts import marks
from dashboard.collector.seen_events import KEPT_UNKNOWN, may_see, shown_to
from dashboard.pages.events import KINDS, id_of
from dashboard.security.roles import Scope
from tests.dashboard.pages.group_kit import drive, layout_of, seeing
from tests.dashboard.support import VIEWER, Desk, text_of
from tests.support.broker import Target


def test_events_with_author_and_fields(broker: Target, topic: str) -> None:
    """If this fails, users cannot find out who created or changed a topic, and when."""

    async def job(desk: Desk) -> None:
        client = desk.hub.session.client
        (await client.topics.create([NewTopic(topic, 2)])).whole()
        await client.topics.delete([topic])
        state = await desk.state("events", lambda state: len(state["rows"]) == 2, filter=topic)
        deleted, created = state["rows"]
        assert [text_of(cell) for cell in created["cells"][1:4]] == [
            "topic created",
            topic,
            "2 partitions, replication factor 1",
        ]
        assert text_of(deleted["cells"][1]) == "topic deleted"
        assert deleted["cells"][1]["tone"] == "WARN"
        assert created["cells"][2]["href"].endswith(f"/topic?topic={topic}")
        assert created["cells"][4].startswith("dashboard ")
        only = await desk.rows("events", filter=topic, kind="topic_deleted")
        assert [row["event"] for row in only.values()] == ["topic deleted"]
        lines = [row["line"] for row in (await desk.rows("event-detail", event=created["id"])).values()]
        assert f"topic: {topic}" in lines
        assert "partitions: 2" in lines
        assert await desk.rows("event-detail", event=created["id"].replace("1", "2", 1)) == {}
        assert "event-detail" in layout_of(desk, "events", event=created["id"], kind="topic_created")
        ends_ms = int(text_of(created["cells"][0])[1:])
        earlier = await desk.rows("events", filter=topic, range=f"{ends_ms - 10_000}-{ends_ms - 2_000}")
        assert earlier == {}

    drive(broker.bootstrap, job)


def test_events_about_other_topics_are_hidden(broker: Target, topic: str) -> None:
    """If this fails, a viewer of some topics learns the names and settings of all others."""
    mine = f"{topic}-mine"

    async def job(desk: Desk) -> None:
        client = desk.hub.session.client
        (await client.topics.create([NewTopic(topic, 1), NewTopic(mine, 1)])).whole()
        state = await desk.state("events", lambda state: mine in str(state["rows"]))
        assert {text_of(row["cells"][2]) for row in state["rows"]} == {mine}
        assert state["total"] == len(state["rows"])
        hidden = [each for each in desk.hub.session.events.items if each.event.key == topic]
        assert hidden
        assert await desk.rows("event-detail", event=id_of(hidden[0])) == {}

    drive(broker.bootstrap, job, seeing(VIEWER, topics=(mine,), groups=()))


def test_scopes_of_each_kind_of_event() -> None:
    """If this fails, an event about a group shows topics that the viewer may not see, or settings of the broker."""
    scope = Scope(topics=("orders",), groups=("billing",))
    moves = [Move("orders", 0, "a", "b", 10), Move("secret", 1, "a", "b", 900)]
    rebalance = Stamped(1, 1, Rebalance(group="billing", moves=moves, moves_total=2, stall_max_ms=900))
    assert may_see(rebalance, scope)
    seen = shown_to(rebalance, scope).event
    assert isinstance(seen, Rebalance)
    assert (seen.moves, seen.moves_total, seen.stall_max_ms) == (moves[:1], 1, 10)
    assert seen.kept == KEPT_UNKNOWN
    assert shown_to(rebalance, Scope()) is rebalance
    for topics in (["orders"], ["orders", "secret"]):
        status = Stamped(
            1, 1, StreamsStatus("billing", 1, 1, [GroupStatus("MISSING", f"{topics} are missing")], topics)
        )
        assert ("missing" in line_of(shown_to(status, scope).event)) == (topics == ["orders"])
        assert "MISSING" in line_of(shown_to(status, scope).event)
        assert "secret" not in str(shown_to(status, scope))
        assert shown_to(status, Scope()) is status
    trigger = Trigger("metadata", topics=["orders", "secret"])
    epoch = shown_to(Stamped(1, 1, GroupEpoch("billing", "consumer", 3, trigger, 1)), scope).event
    assert isinstance(epoch, GroupEpoch)
    assert epoch.trigger.topics == ["orders"]
    rebalance = Stamped(1, 1, Rebalance("billing", 3, triggers=[trigger]))
    assert "secret" not in str(shown_to(rebalance, scope))
    assert shown_to(rebalance, Scope()) is rebalance
    held = [HeldRecords(topic, 0, 2, 5) for topic in ("orders", "secret")]
    changed = shown_to(Stamped(1, 1, ShareLeaderChanged("billing", 5, held, 2)), scope).event
    assert isinstance(changed, ShareLeaderChanged)
    assert (changed.partitions, changed.partitions_total) == (held[:1], 1)
    assert not may_see(Stamped(1, 1, Rebalance(group="other")), scope)
    assert not may_see(Stamped(1, 1, TopicCreated(topic="secret")), scope)
    assert not may_see(Stamped(1, 1, BrokerStarted()), scope)
    for kind, resource, is_seen in (
        ("topic", "orders", True),
        ("topic", "secret", False),
        ("group", "billing", True),
        ("group", "other", False),
        ("broker", "1", False),
    ):
        assert may_see(Stamped(1, 1, ConfigChanged(kind, resource)), scope) is is_seen


def test_a_partition_that_had_no_owner_has_no_stall() -> None:
    """If this fails, a viewer of some topics sees a stall of -1 ms, or the stall of a hidden partition."""
    moves = [Move("orders", 0, "", "b", -1), Move("secret", 1, "a", "b", 900)]
    rebalance = Stamped(7, 1, Rebalance(group="billing", moves=moves, moves_total=2, kept=3, stall_max_ms=900))
    [(time_ms, text, _)] = marks([rebalance], Scope(topics=("orders",), groups=("billing",)))
    assert time_ms == 7
    assert text.endswith("1 partition moved, stall 0 ms")
    [(_, whole, _)] = marks([rebalance], Scope())
    assert whole.endswith("2 partitions moved, stall 900 ms")
    assert marks([rebalance], Scope(topics=("orders",), groups=("other",))) == []


@pytest.mark.parametrize(
    ("channel", "params"),
    [
        ("events", {"kind": "commits"}),
        ("events", {"kind": "nonsense"}),
        ("events", {"range": "8d"}),
        ("event-detail", {"event": "1"}),
        ("event-detail", {"event": "x.1.topic_created.t"}),
        ("event-detail", {}),
    ],
)
def test_bad_parameters(broker: Target, channel: str, params: dict[str, str]) -> None:
    """If this fails, a wrong address shows an empty table instead of an error."""

    async def job(desk: Desk) -> None:
        with pytest.raises(ClientError):
            desk.look(channel, **params)

    drive(broker.bootstrap, job)


def test_every_kind_can_be_chosen(broker: Target) -> None:
    """If this fails, the page cannot be limited to one kind of event."""

    async def job(desk: Desk) -> None:
        page = layout_of(desk, "events", range="1h")
        for kind in KINDS:
            assert f"/events?range=1h&kind={kind}" in page

    drive(broker.bootstrap, job)
