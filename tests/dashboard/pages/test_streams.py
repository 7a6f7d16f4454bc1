"""The pages of stream processing applications, with an instance that answers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from broker_cy.client.errors import ClientError
from tests.dashboard.pages.group_kit import drive, layout_of, seeing
from tests.dashboard.support import ADMIN, Desk
from tests.support.broker import BrokerProcess
from tests.support.streams_instance import SETTINGS, running_application

NAME = "shown"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    found = BrokerProcess(tmp_path_factory.mktemp("streams-page-broker"), SETTINGS)
    try:
        yield found.start()
    finally:
        found.close()


def test_an_application_is_shown(broker: BrokerProcess) -> None:
    """If this fails, a viewer does not see that an application runs, or where its records are."""

    async def job(desk: Desk) -> None:
        async with running_application(broker.bootstrap, NAME):
            rows = await desk.rows("streams", lambda state: bool(state["rows"]) and state["rows"][0]["cells"][4] == "0")
            shown = rows[NAME]
            assert (shown["instances"], shown["tasks"], shown["problems"]) == ("1", "4", "0")

            def is_settled(state: object) -> bool:
                return "RUNNING" in str(state)

            facts = await desk.state("stream-facts", is_settled, application=NAME)
            assert ["state", "RUNNING", "GOOD"] in facts["facts"]
            tasks = await desk.rows("stream-tasks", lambda state: len(state["rows"]) == 4, application=NAME)
            assert {each["role"] for each in tasks.values()} == {"active"}
            assert sum(int(each["rows"]) for each in tasks.values() if each["rows"] != "-") == 3
            picture = await desk.state("stream-picture", lambda state: "rows" in str(state), application=NAME)
            by_kind = sorted({node["kind"] for node in picture["nodes"]})
            assert by_kind == ["processor", "sink", "source", "store"]
            store = next(node for node in picture["nodes"] if node["kind"] == "store")
            assert (store["title"], store["figures"]) == ("counts", "3 rows")
            links = [node.get("href", "") for node in picture["nodes"] if node["kind"] == "source"]
            assert all("/topic?topic=" in each for each in links)
            inputs = await desk.rows("stream-inputs", application=NAME)
            assert {each["lag"] for each in inputs.values()} == {"0"}
            assert (await desk.rows("stream-stores", application=NAME))["counts"]["rows"] == "3"
            assert (await desk.rows("stream-instances", application=NAME)).keys()
            assert await desk.rows("stream-problems", application=NAME) == {}
            assert "stream-picture" in layout_of(desk, "stream", application=NAME)
            with pytest.raises(ClientError, match="the address names no application"):
                layout_of(desk, "stream")
            assert "Group absent not found" in await desk.look("stream-facts", application="absent").failed()

    drive(broker.bootstrap, job)


def test_pages_are_hidden_from_users_of_some_topics(broker: BrokerProcess) -> None:
    """If this fails, a user sees the names of topics and groups that are hidden from them."""

    async def job(desk: Desk) -> None:
        desk.identity = seeing(ADMIN, topics=("other*",))
        for page, query in (("streams", {}), ("stream", {"application": NAME})):
            assert "your account may see only some of them" in layout_of(desk, page, **query)
        assert "your account may see only some of them" in await desk.look("streams").failed()
        for channel in ("stream-facts", "stream-picture", "stream-tasks"):
            assert "your account may see" in await desk.look(channel, application=NAME).failed()

    drive(broker.bootstrap, job)
