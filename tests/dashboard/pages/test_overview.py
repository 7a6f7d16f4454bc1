"""The overview: health and events for a viewer of some topics and groups."""

from __future__ import annotations

from broker_cy.admin.topics import NewTopic
from broker_cy.client.event_text import line_of
from broker_cy.metrics.events import Move, Rebalance, Stamped
from dashboard.collector.channel import channel_class
from dashboard.pages.overview import RecentEvents
from dashboard.security.roles import Scope
from tests.dashboard.pages.cluster_kit import plant, topic_of
from tests.dashboard.pages.group_kit import drive, seeing
from tests.dashboard.support import VIEWER, Desk
from tests.support.broker import Target

_HIDDEN = {"groups", "members", "transactions open"}


def test_health_counts_what_a_viewer_may_see(broker: Target) -> None:
    """If this fails, a viewer of one topic learns the number of other topics, groups and transactions."""
    good, behind, offline = (0, (0,), (0,)), (0, (0, 1), (0,)), (-1, (0,), (0,))

    async def job(desk: Desk) -> None:
        plant(desk, "topics", (topic_of("mine", good, behind), topic_of("other", good, good, offline)))

        async def facts(*known: str) -> dict[str, str]:
            def is_whole(state: dict[str, list[tuple[str, str, str]]]) -> bool:
                return {"topics", "up", *known} <= {name for name, _, _ in state["facts"]}

            return {name: value for name, value, _ in (await desk.state("health", is_whole))["facts"]}

        counted = ("topics", "partitions", "offline", "under-replicated")
        whole = await facts()
        assert [whole[name] for name in counted] == ["2", "5", "1", "1"]
        assert set(whole) >= _HIDDEN
        desk.identity = seeing(VIEWER, topics=("mine",))
        seen = await facts()
        assert [seen[name] for name in counted] == ["1", "2", "0", "1"]
        assert set(whole) - set(seen) == _HIDDEN
        desk.identity = seeing(VIEWER, groups=("mine",))
        seen = await facts()
        assert [seen[name] for name in counted] == ["2", "5", "1", "1"]
        assert set(whole) - set(seen) == _HIDDEN

    drive(broker.bootstrap, job)


def test_recent_rebalances_leave_out_hidden_topics(broker: Target, topic: str) -> None:
    """If this fails, the overview counts partitions of hidden topics, which the page of events leaves out."""
    moves = [Move("orders", 0, "", "b", -1), Move("secret", 1, "a", "b", 900)]
    rebalance = Rebalance(group="billing", moves=moves, moves_total=2, kept=5, stall_max_ms=900)

    async def job(desk: Desk) -> None:
        (await desk.hub.session.client.topics.create([NewTopic(topic, 1)])).whole()
        await desk.state("recent-events", lambda state: topic in str(state["rows"]))
        desk.hub.session.events.items.append(Stamped(1, 1, rebalance))
        limited = Scope(topics=("orders",), groups=("billing",))
        assert channel_class("recent-events") is RecentEvents
        [seen] = RecentEvents(desk.hub, {}, limited).rows() or ()
        assert line_of(seen.event).endswith("1 partition moved, stall 0 ms")

    drive(broker.bootstrap, job)
