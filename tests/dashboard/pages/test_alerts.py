"""Alerts: rules and their violations, the log of fired alerts, and the view of users with a limited scope."""

from __future__ import annotations

import pytest

from broker_cy.admin.metadata import TopicPartition
from broker_cy.admin.topics import NewTopic
from broker_cy.client.errors import ClientError
from broker_cy.console.alerts.rules import AlertSettings, Rule, WebhookSettings
from broker_cy.console.alerts.watch import FIRING, OK, PENDING, UNKNOWN, Finding, Notice
from broker_cy.wire.records import Record
from dashboard.collector.alert_log import AlertLog
from dashboard.pages.alerts import sees_subject, visible
from dashboard.security.roles import Scope
from tests.dashboard.pages.group_kit import drive, layout_of, seeing
from tests.dashboard.support import ADMIN, VIEWER, Desk
from tests.support.broker import Target

LIMITED = Scope(topics=("orders",), groups=("billing",))


def test_an_alert_fires_and_is_resolved(broker: Target, topic: str) -> None:
    """If this fails, the page does not show what is wrong, since when, or that it was resolved."""

    async def job(desk: Desk) -> None:
        desk.alerts.interval_s = 0.1
        client = desk.hub.session.client
        (await client.topics.create([NewTopic(topic, 1)])).whole()
        await client.records.producer().send(topic, [Record(value=b"x")] * 5, partition=0)
        await client.group_offsets.alter(topic, {TopicPartition(topic, 0): 1})
        text = f"group {topic} is 4 records behind (limit 3)"
        rows = await desk.rows("alerts", lambda state: "firing" in str(state["rows"]))
        assert [(row["state"], row["rule"], row["what"], row["kind"]) for row in rows.values()] == [
            ("firing", "behind", text, "lag")
        ]
        facts = {name: value for name, value, _ in (await desk.state("alert-counts"))["facts"]}
        assert (facts["firing"], facts["rules ok"]) == ("1", "0")
        await client.group_offsets.alter(topic, {TopicPartition(topic, 0): 5})
        desk.hub.session.refresh()
        history = await desk.rows("alert-history", lambda state: len(state["rows"]) == 2)
        assert [(row["state"], row["rule"], row["what"]) for row in history.values()] == [
            ("resolved", "behind", text),
            ("fired", "behind", text),
        ]
        ok = await desk.rows("alerts", lambda state: "firing" not in str(state["rows"]))
        assert [row["state"] for row in ok.values()] == ["ok"]

    drive(broker.bootstrap, job, alerts=AlertSettings((Rule("behind", "lag", group=topic, records=3),)))


@pytest.mark.full
def test_alerts_of_other_groups_and_topics_are_hidden(broker: Target, topic: str) -> None:
    """If this fails, alerts reveal other groups and their lag to a viewer who may see only some groups."""

    async def job(desk: Desk) -> None:
        client = desk.hub.session.client
        (await client.topics.create([NewTopic(topic, 1)])).whole()
        await client.records.producer().send(topic, [Record(value=b"x")] * 5, partition=0)
        await client.group_offsets.alter(topic, {TopicPartition(topic, 0): 1})
        desk.alerts.interval_s = 0.1
        watch = desk.alerts.watch("test")
        await desk.state("alerts")
        await desk.state("alert-counts", lambda state: any(each.state == FIRING for each in watch.findings))
        rows = await desk.rows("alerts")
        assert {name: row["state"] for name, row in rows.items()} == {"any group ok ": "ok"}
        facts = {name: value for name, value, _ in (await desk.state("alert-counts"))["facts"]}
        assert (facts["firing"], facts["rules ok"]) == ("0", "1")
        assert desk.hub.alert_log.notices
        assert await desk.rows("alert-history") == {}

    rules = (Rule("any group", "lag", records=3), Rule("about others", "lag", group=topic, records=3))
    drive(broker.bootstrap, job, seeing(VIEWER, groups=("billing",)), alerts=AlertSettings(rules))


def test_findings_by_scope() -> None:
    """If this fails, an alert is shown to users who may not see its subject, or hidden from users who may."""
    lag, offline = Rule("lag", "lag", records=1), Rule("offline", "offline_partition")
    hanging, disk = Rule("hanging", "hanging_transaction"), Rule("disk", "disk", free_percent=1)
    mirror = Rule("mirror", "mirror_problem")
    for rule, subject, is_seen in (
        (lag, "billing", True),
        (lag, "other", False),
        (lag, "", False),
        (offline, "orders-0", True),
        (offline, "orders-eu-0", False),
        (hanging, "orders-3/4711", True),
        (hanging, "secret-3/4711", False),
        (disk, "/data of broker 1", True),
        (mirror, "A->B, secret-3", False),
    ):
        assert sees_subject(LIMITED, rule, subject) is is_seen, (rule.name, subject)
        assert sees_subject(Scope(), rule, subject)
    findings = [
        Finding(lag, FIRING, "billing", "group billing is 2 behind", 1.0),
        Finding(lag, FIRING, "", "and 3 others", None),
        Finding(offline, PENDING, "secret-0", "secret-0 is offline", 1.0),
        Finding(hanging, UNKNOWN, "", "3 groups with lag", None),
        Finding(Rule("theirs", "lag", group="secret*", records=1), OK, "", "", None),
        Finding(Rule("their mirror", "mirror_problem", flow="secret*"), OK, "", "", None),
    ]
    assert [(each.rule.name, each.state, each.text) for each in visible(findings, LIMITED)] == [
        ("lag", FIRING, "group billing is 2 behind"),
        ("offline", OK, ""),
        ("hanging", UNKNOWN, ""),
    ]
    assert visible(findings, Scope()) == findings


def test_the_log_of_alerts_is_bounded() -> None:
    """If this fails, a flapping alert exhausts the dashboard's memory within days."""
    rule = Rule("lag", "lag", records=1)
    log = AlertLog(3)
    called: list[int] = []
    log.subscribe(lambda: called.append(len(log.notices)))
    log.add(Notice("test", rule, f"g-{number}", "text", True, number, number) for number in range(5))
    assert [each.subject for each in log.notices] == ["g-2", "g-3", "g-4"]
    assert log.dropped == 2
    assert called == [0, 3]


def test_the_webhook_is_for_admins(broker: Target) -> None:
    """If this fails, every viewer can read the address to which alerts are sent."""
    webhook = AlertSettings((), WebhookSettings("http://127.0.0.1:9/secret-path"))

    async def job(desk: Desk) -> None:
        facts = {name: value for name, value, _ in (await desk.state("webhook"))["facts"]}
        assert facts["to"] == "127.0.0.1:9"
        assert "secret-path" not in str(facts)
        assert '"channel": "webhook"' in layout_of(desk, "alerts")
        desk.identity = VIEWER
        assert '"channel": "webhook"' not in layout_of(desk, "alerts")
        with pytest.raises(ClientError, match="the role admin"):
            desk.look("webhook")

    drive(broker.bootstrap, job, ADMIN, alerts=webhook)
