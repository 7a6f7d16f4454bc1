"""The list of topics: the groups that read them, favourites, scopes, acts on marked topics."""

from __future__ import annotations

from typing import Any

import pytest

from broker_cy.client.errors import ClientError
from dashboard.pages.topics import FAVOURITES_MAX
from tests.dashboard.pages.group_kit import drive, layout_of, seeing
from tests.dashboard.pages.record_kit import make
from tests.dashboard.support import ADMIN, OPERATOR, VIEWER, Desk
from tests.support.broker import Target
from tests.support.read_group import with_group


def test_groups_and_worst_lag_of_each_topic(broker: Target, topic: str) -> None:
    """If this fails, the list does not show which topic is not read, or a hidden group is shown in another row."""

    async def work(desk: Desk) -> None:
        client = desk.hub.session.client
        await with_group(client, topic)
        (
            await client.group_offsets.alter(f"{topic}-slow", dict.fromkeys(await client.records.partitions(topic), 10))
        ).whole()
        await make(client, f"{topic}-unread", [])

        def known(state: object) -> bool:
            return f"180 · {topic}-slow" in str(state)

        rows = await desk.rows("topics", known, filter=topic)
        assert (rows[topic]["groups"], rows[topic]["lag"]) == ("2", f"180 · {topic}-slow")
        assert (rows[f"{topic}-unread"]["groups"], rows[f"{topic}-unread"]["lag"]) == ("0", "-")
        by_lag = await desk.rows("topics", known, filter=topic, sort="lag", desc="1")
        assert list(by_lag) == [topic, f"{topic}-unread"]
        desk.identity = seeing(VIEWER, groups=(topic,))
        rows = await desk.rows("topics", lambda state: f"90 · {topic}" in str(state), filter=topic)
        assert (rows[topic]["groups"], rows[topic]["lag"]) == ("1", f"90 · {topic}")

    drive(broker.bootstrap, work)


def test_favourites_are_first_in_any_order(broker: Target, topic: str) -> None:
    """If this fails, favourites are lost on the second page of the list, or other topics are missing there."""

    async def work(desk: Desk) -> None:
        client = desk.hub.session.client
        names = [f"{topic}-{letter}" for letter in "abcdef"]
        for name in names:
            await make(client, name, [])
        a, b, c, d, e, f = names
        starred: dict[str, Any] = {"favourites": f"{e},{c},absent", "filter": topic}
        assert list(await desk.rows("topics", lambda state: state["found"] == 6, **starred)) == [c, e, a, b, d, f]
        falling: dict[str, Any] = {**starred, "sort": "topic", "desc": "1"}
        assert list(await desk.rows("topics", **falling)) == [e, c, f, d, b, a]
        for first, expected in (("0", [c]), ("1", [e]), ("2", [a]), ("5", [f])):
            assert list(await desk.rows("topics", **{**starred, "from": first, "count": "1"})) == expected
        assert list(await desk.rows("topics", **{**starred, "from": "1", "count": "3"})) == [e, a, b]
        only = await desk.state("topics", **starred, starred="1")
        assert (only["found"], only["total"]) == (2, 2)
        for names_given, reason in (
            ("a b", "' ' is not allowed"),
            (",".join(map(str, range(FAVOURITES_MAX + 1))), "51 favourites"),
        ):
            with pytest.raises(ClientError, match=reason):
                desk.look("topics", favourites=names_given)

    drive(broker.bootstrap, work)


def test_hidden_topics_do_not_count(broker: Target, topic: str) -> None:
    """If this fails, a viewer learns the names or the number of topics that they may not see."""

    async def work(desk: Desk) -> None:
        client = desk.hub.session.client
        await make(client, topic, [])
        await make(client, f"{topic}-hidden", [])
        await desk.state("topics", lambda state: state["found"] == 2, filter=topic)
        desk.identity = seeing(VIEWER, topics=(topic,))
        state = await desk.state("topics", favourites=f"{topic}-hidden", internal="1")
        assert ([row["id"] for row in state["rows"]], state["found"], state["total"]) == ([topic], 1, 1)

    drive(broker.bootstrap, work)


def test_marked_topics_are_deleted_by_admins(broker: Target, topic: str) -> None:
    """If this fails, marked topics are not deleted, or a user deletes topics without permission."""

    async def work(desk: Desk) -> None:
        client = desk.hub.session.client
        names = [f"{topic}-1", f"{topic}-2"]
        for name in names:
            await make(client, name, [])
        desk.identity = OPERATOR
        with pytest.raises(ClientError, match="needs the role admin"):
            await desk.open("delete-topics", rows=names)
        desk.identity = seeing(ADMIN, topics=(names[0],))
        with pytest.raises(ClientError, match=f"may not see topic {names[1]}"):
            await desk.open("delete-topics", rows=names)
        desk.identity = ADMIN
        plan = (await desk.open("delete-topics", rows=names))["plan"]
        assert plan["typed"] == "2 topics"
        assert (await desk.execute(plan, "2 topics"))["done"] == 2
        assert not {each.name for each in await client.topics.list_all()} & set(names)

    drive(broker.bootstrap, work)


def test_the_page(broker: Target) -> None:
    """If this fails, the links of the list do not keep each other's choices."""

    async def work(desk: Desk) -> None:
        page = layout_of(desk, "topics", internal="1", starred="1")
        assert '"params": {"internal": "1", "starred": "1"}' in page
        assert "/c/test/topics?starred=1" in page
        assert "/c/test/topics?internal=1" in page

    drive(broker.bootstrap, work)
