"""Settings of topics, brokers and groups: their display, and access to changes."""

from __future__ import annotations

import pytest

from broker_cy.admin.topics import NewTopic
from broker_cy.client.errors import ClientError
from tests.dashboard.pages.group_kit import drive, layout_of, seeing
from tests.dashboard.support import ADMIN, OPERATOR, VIEWER, Desk
from tests.support.broker import Target

# Set for all brokers in each new cluster, because of eligible.leader.replicas.version 1 (KIP-966).
OF_ALL_BROKERS = "min.insync.replicas"


def test_settings_of_a_topic(broker: Target, topic: str) -> None:
    """If this fails, a value, its source or its default is wrong."""

    async def work(desk: Desk) -> None:
        created = await desk.hub.session.client.topics.create(
            [NewTopic(topic, 1, configs={"delete.retention.ms": "3600000"})]
        )
        created.whole()
        rows = await desk.rows("settings", topic=topic)
        assert {key: rows["delete.retention.ms"][key] for key in ("value", "source", "default")} == {
            "value": "3600000  (1 h)", "source": "topic", "default": "86400000  (1 d)",
        }  # fmt: skip
        assert rows["cleanup.policy"]["source"] == "default"
        assert list(await desk.rows("settings", topic=topic, own="1")) == ["delete.retention.ms", OF_ALL_BROKERS]
        facts = (await desk.state("setting", topic=topic, setting="delete.retention.ms"))["facts"]
        assert ["value", "3600000  (1 h)", "GOOD"] in facts
        assert any(name == "otherwise from default" and text.endswith("= 86400000") for name, text, _ in facts)
        assert facts[-1][0] == "documentation"
        assert "no setting 'x'" in await desk.look("setting", topic=topic, setting="x").failed()

    drive(broker.bootstrap, work)


def test_a_setting_is_changed_and_reset(broker: Target, topic: str) -> None:
    """If this fails, a change has another effect than its preview, or cannot be undone."""

    async def work(desk: Desk) -> None:
        (await desk.hub.session.client.topics.create([NewTopic(topic, 1)])).whole()
        subject = {"topic": topic, "setting": "delete.retention.ms"}
        form = (await desk.open("change-setting", **subject))["form"]
        assert (form["fields"][0]["value"], form["fields"][0]["label"]) == ("86400000", "long")
        assert "value" in (await desk.plan("change-setting", {"value": "soon"}, **subject))["problems"]
        plan = (await desk.plan("change-setting", {"value": "1000"}, **subject))["plan"]
        assert plan["changes"] == ["delete.retention.ms: 86400000 -> 1000"]
        assert plan["command"].startswith(f"broker-cy configs alter topic {topic} --set=delete.retention.ms=1000")
        await desk.execute(plan)
        looker = desk.look("settings", topic=topic, own="1")
        await looker.until(lambda state: state["found"] == 2)
        plan = (await desk.open("reset-setting", **subject))["plan"]
        assert plan["changes"] == ["delete.retention.ms: 1000 -> 86400000"]
        await desk.execute(plan)
        await looker.until(lambda state: state["found"] == 1)
        with pytest.raises(ClientError, match="nothing can be removed"):
            await desk.open("reset-setting", **subject)

    drive(broker.bootstrap, work, OPERATOR)


def test_settings_of_a_broker_are_changed_by_admins(broker: Target) -> None:
    """If this fails, an operator can change broker settings, or an admin cannot."""

    async def work(desk: Desk) -> None:
        rows = await desk.rows("settings", lambda state: state["found"] > 50, broker="1", count="200")
        assert rows["broker.id"]["changed"] == "restart"
        subject = {"broker": "1", "setting": "log.cleaner.threads"}
        for identity in (VIEWER, OPERATOR):
            desk.identity = identity
            with pytest.raises(ClientError, match="needs the role admin"):
                await desk.open("change-setting", **subject)
        desk.identity = ADMIN
        with pytest.raises(ClientError, match="is read-only"):
            await desk.open("change-setting", broker="1", setting="broker.id")
        plan = (await desk.plan("change-setting", {"value": "2"}, **subject))["plan"]
        await desk.execute(plan)
        changed = await desk.rows(
            "settings", lambda state: state["found"] > 0, broker="1", own="1", filter="log.cleaner.threads"
        )
        assert changed["log.cleaner.threads"]["source"] == "broker"
        await desk.execute((await desk.open("reset-setting", **subject))["plan"])
        # The log names the setting, but never its value, which may be a password.
        entries = [
            each for each in desk.security.audit.entries if each["act"] == "change-setting" and "command" in each
        ]
        assert [each["command"] for each in entries] == [""]
        assert "log.cleaner.threads" in entries[0]["subject"]

    drive(broker.bootstrap, work)


def test_settings_of_a_group(broker: Target, topic: str) -> None:
    """If this fails, settings of groups cannot be seen or changed."""

    async def work(desk: Desk) -> None:
        assert "consumer.session.timeout.ms" in await desk.rows("settings", group=topic)
        subject = {"group": topic, "setting": "consumer.session.timeout.ms"}
        plan = (await desk.plan("change-setting", {"value": "46000"}, **subject))["plan"]
        await desk.execute(plan)
        rows = await desk.rows("settings", lambda state: state["found"] == 1, group=topic, own="1")
        assert rows["consumer.session.timeout.ms"]["source"] == "group"
        await desk.execute((await desk.open("reset-setting", **subject))["plan"])
        desk.identity = OPERATOR
        with pytest.raises(ClientError, match="needs the role admin"):
            await desk.open("change-setting", **subject)

    drive(broker.bootstrap, work)


@pytest.mark.parametrize(
    ("params", "reason"),
    [
        ({}, "exactly one of the parameters topic, broker, group"),
        ({"topic": "a", "group": "b"}, "exactly one of the parameters"),
        ({"broker": "one"}, "is not a broker id"),
        ({"broker": "99999999999"}, "is not a broker id"),
        ({"topic": "a", "cluster": "x"}, "unknown parameter 'cluster'"),
    ],
)
def test_wrong_parameters(broker: Target, params: dict[str, str], reason: str) -> None:
    """If this fails, a wrong address shows the settings of another topic, broker or group."""

    async def work(desk: Desk) -> None:
        with pytest.raises(ClientError, match=reason):
            desk.look("settings", **params)

    drive(broker.bootstrap, work)


def test_pages_of_settings(broker: Target, topic: str) -> None:
    """If this fails, the page of one kind lacks its buttons, or shows a topic that may not be seen."""

    async def work(desk: Desk) -> None:
        page = layout_of(desk, "topic-settings", topic=topic, setting="retention.ms")
        assert '"act": "change-setting", "params": {"topic": "' in page
        assert '"role": 2' in page
        assert '"role": 3' in layout_of(desk, "broker-settings", broker="1", setting="x")
        assert '"channel": "settings"' in layout_of(desk, "group-settings", group="g")
        desk.identity = seeing(VIEWER, topics=("else*",), groups=("else*",))
        for name, subject in (("topic-settings", {"topic": topic}), ("group-settings", {"group": "g"})):
            with pytest.raises(ClientError, match="may not see"):
                layout_of(desk, name, **subject)
            with pytest.raises(ClientError, match="may not see"):
                desk.look("settings", **subject)

    drive(broker.bootstrap, work)
