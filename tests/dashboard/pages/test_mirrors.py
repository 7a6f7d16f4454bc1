"""The pages of mirrors, with the status of a process and mirror topics of a broker."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from broker_cy.admin.configs import ConfigResource, ResourceType
from broker_cy.admin.topics import NewTopic
from broker_cy.client.errors import ClientError
from tests.dashboard.pages.group_kit import drive, layout_of, seeing
from tests.dashboard.support import ADMIN, OPERATOR, VIEWER, Desk
from tests.support.broker import QUICK, BrokerProcess
from tests.support.mirror_page import flow_of, serving

LINK = "brokercy.mirror.link"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    found = BrokerProcess(tmp_path_factory.mktemp("mirrors-broker"), QUICK)
    try:
        yield found.start()
    finally:
        found.close()


@pytest.fixture
def name() -> str:
    return f"t-{uuid.uuid4().hex[:8]}"


def test_a_flow_and_its_faults_are_shown(broker: BrokerProcess) -> None:
    """If this fails, a viewer does not see that a flow is behind, or what it does not copy."""

    async def job(desk: Desk) -> None:
        rows = await desk.rows("mirrors")
        shown = rows["A->B"]
        assert {
            name: shown[name] for name in ("kind", "state", "lag", "lag-time", "problems", "loops", "restarts")
        } == {
            "kind": "copy",
            "state": "running",
            "lag": "14",
            "lag-time": "2.5 s",
            "problems": "3",
            "loops": "2",
            "restarts": "1",
        }
        parts = await desk.rows("mirror-partitions", flow="A->B")
        assert (parts["A.orders-0"]["position"], parts["A.orders-0"]["end"]) == ("90", "100")
        assert parts["A.taxes-3"]["problem"] == "the target has no partition 3"
        facts = await desk.state("mirror-facts", flow="A->B")
        assert ["state", "running", "GOOD"] in facts["facts"]
        notes = await desk.rows("mirror-notes", flow="A->B")
        assert [each["kind"] for each in notes.values()] == ["circle", "problem", "problem", "loop", "restart"]
        with pytest.raises(ClientError, match="the address names no flow"):
            layout_of(desk, "mirror")
        assert "promote-mirrors" not in layout_of(desk, "mirror", flow="A->B")
        assert "promote-mirrors" in layout_of(desk, "mirror", flow="east")
        error = await desk.look("mirror-facts", flow="absent").failed()
        assert "the cluster has no such flow" in error

    with serving(flow_of()) as address:
        drive(broker.bootstrap, job, mirrors=(address,))


def test_mirror_topics_are_paused_and_promoted(broker: BrokerProcess, name: str) -> None:
    """If this fails, a failover needs another program; or a viewer ends a mirror."""

    async def job(desk: Desk) -> None:
        client = desk.hub.session.client
        (await client.topics.create([NewTopic(name, 2, configs={LINK: "east"})])).whole()
        rows = [f"{name}-0", f"{name}-1"]

        async def setting(wanted: str) -> str | None:
            resource = ConfigResource(ResourceType.TOPIC, name)
            (found,) = (await client.configs.describe([resource], names=[wanted])).whole()[resource]
            return found.value

        desk.identity = VIEWER
        with pytest.raises(ClientError, match="operator"):
            await desk.open("pause-mirrors", rows=rows)
        desk.identity = OPERATOR
        plan = (await desk.open("pause-mirrors", rows=rows))["plan"]
        assert plan["typed"] is None
        assert (await desk.execute(plan))["problem"] == ""
        assert await setting("brokercy.mirror.paused") == "true"
        with pytest.raises(ClientError, match="admin"):
            await desk.open("promote-mirrors", rows=rows)
        plan = (await desk.open("resume-mirrors", rows=rows))["plan"]
        await desk.execute(plan)
        assert await setting("brokercy.mirror.paused") == "false"
        desk.identity = seeing(ADMIN, topics=("other*",))
        with pytest.raises(ClientError, match="may not see topic"):
            await desk.open("promote-mirrors", rows=rows)
        desk.identity = ADMIN
        with pytest.raises(ClientError, match="no partition is marked"):
            await desk.open("promote-mirrors")
        plan = (await desk.open("promote-mirrors", rows=rows))["plan"]
        assert "follow link east no longer" in plan["affected"]
        assert plan["command"].startswith(f"broker-mirror promote --topic {name} --force --yes --cluster ")
        with pytest.raises(ClientError, match="nothing was changed"):
            await desk.execute(plan, "yes")
        assert (await desk.execute(plan, name))["said"] == "promoted 1 mirror topic"
        assert await setting(LINK) == ""
        with pytest.raises(ClientError, match="the topic is no mirror of a link"):
            await desk.open("pause-mirrors", rows=rows)

    drive(broker.bootstrap, job)


def test_pages_are_hidden_from_users_of_some_topics(broker: BrokerProcess) -> None:
    """If this fails, a user sees the names of topics and groups that are hidden from them."""

    async def job(desk: Desk) -> None:
        desk.identity = seeing(ADMIN, topics=("other*",))
        assert "your account may see only some of them" in layout_of(desk, "mirrors")
        assert "your account may see only some of them" in layout_of(desk, "mirror", flow="A->B")
        assert "your account may see only some of them" in await desk.look("mirrors").failed()

    drive(broker.bootstrap, job)
