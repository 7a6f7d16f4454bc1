"""Producing records, and producing marked ones again."""

from __future__ import annotations

from dataclasses import replace

import pytest

from broker_cy.admin.metadata import TopicPartition
from broker_cy.admin.records import Start, StartKind
from broker_cy.client.errors import ClientError, Failure
from broker_cy.wire.records import Record
from dashboard.pages import record_acts
from dashboard.security.masking import Masking, parse_masks
from dashboard.security.roles import Scope
from tests.dashboard.pages.group_kit import drive, seeing
from tests.dashboard.pages.record_kit import make, numbered
from tests.dashboard.support import OPERATOR, VIEWER, Desk
from tests.support.broker import Target
from tests.support.read_group import BEGIN_MS


async def contents(desk: Desk, topic: str) -> list[Record]:
    client = desk.hub.session.client
    keys = await client.records.partitions(topic)
    spans = await client.records.spans(keys, Start(StartKind.EARLIEST))
    found: list[Record] = []
    async with client.records.reader(
        {key: span.start for key, span in spans.items()}, ends={key: span.end for key, span in spans.items()}
    ) as reader:
        async for chunk in reader:
            found += chunk.records
    return found


def test_produce(broker: Target, topic: str) -> None:
    """If this fails, a record has other contents than typed, or the audit log contains them."""

    async def work(desk: Desk) -> None:
        await make(desk.hub.session.client, topic, [], 2)
        form = (await desk.open("produce-record", topic=topic))["form"]
        kinds = next(field["choices"] for field in form["fields"] if field["name"] == "value_kind")
        assert kinds == ["text", "escaped", "hex", "base64", "null"]
        values = {
            "partition": "1",
            "key": "00ff",
            "key_kind": "hex",
            "value": "sesame",
            "headers": "a=b, n",
            "timestamp": "5000",
        }
        plan = (await desk.plan("produce-record", values, topic=topic))["plan"]
        assert (plan["typed"], plan["problem"], plan["destructive"]) == (None, "", False)
        report = await desk.execute(plan)
        assert report["said"] == f"produced 1 record to {topic}: partition 1 at offset 0"
        (record,) = await contents(desk, topic)
        assert (record.key, record.value, record.timestamp) == (b"\x00\xff", b"sesame", 5000)
        assert record.headers == (("a", b"b"), ("n", None))
        (entry,) = [each for each in desk.security.audit.entries if each["act"] == "produce-record"]
        assert "sesame" not in str(entry)
        with pytest.raises(ClientError, match="files of the dashboard's machine"):
            await desk.plan("produce-record", {"value_kind": "file", "value": "/etc/passwd"}, topic=topic)
        wrong = await desk.plan("produce-record", {"key": "x", "partition": "7"}, topic=topic)
        assert set(wrong["problems"]) == {"partition"}
        desk.identity = VIEWER
        with pytest.raises(ClientError, match="needs the role operator"):
            await desk.open("produce-record", topic=topic)

    drive(broker.bootstrap, work, OPERATOR)


def test_marked_records_are_produced_again(broker: Target, topic: str) -> None:
    """If this fails, a redrive changes keys and values, keeps headers that it should remove, or copies other
    records.
    """

    async def work(desk: Desk) -> None:
        client, target = desk.hub.session.client, f"{topic}-again"
        records = [Record(timestamp=BEGIN_MS + at, key=b"k%d" % at, value=None if at == 4 else b"%d" % at,
                          headers=[("error", b"x"), ("id", b"%d" % at)]) for at in range(6)]  # fmt: skip
        await make(client, topic, records, 2)
        await make(client, target, [])
        rows = ["0-2", "1-0"]
        form = (await desk.open("reproduce-records", rows=rows, topic=topic))["form"]
        assert form["title"] == "Produce 2 records again"
        values = {"topic": target, "remove": "error", "add": "by=me", "timestamp": "original"}
        plan = (await desk.plan("reproduce-records", values, rows=rows, topic=topic))["plan"]
        assert plan["affected"] == "2 records, 5 B"
        report = await desk.execute(plan)
        assert report["said"].startswith(f"produced 2 records to {target}")
        found = await contents(desk, target)
        assert [(each.key, each.value, each.timestamp) for each in found] == [
            (b"k1", b"1", BEGIN_MS + 1), (b"k4", None, BEGIN_MS + 4),
        ]  # fmt: skip
        assert found[0].headers == (("id", b"1"), ("by", b"me"))

    drive(broker.bootstrap, work, OPERATOR)


def test_records_that_are_far_apart(broker: Target, topic: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, marking two records of a large topic reads everything between them, or loses one of them."""
    monkeypatch.setattr(record_acts, "_GAP_MAX", 3)

    async def work(desk: Desk) -> None:
        client = desk.hub.session.client
        await make(client, topic, numbered(50))
        offsets = [0, 1, 9, 30, 31, 49]
        found = await record_acts.read_all(client, topic, [(0, offset) for offset in reversed(offsets)])
        assert [record.offset for record in found] == offsets

    drive(broker.bootstrap, work)


def test_what_cannot_be_produced_again_is_refused(broker: Target, topic: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, a redrive silently leaves out records, or a user copies records that they may not see."""

    async def work(desk: Desk) -> None:
        client = desk.hub.session.client
        await make(client, topic, numbered(5))
        values = {"topic": topic}
        with pytest.raises(ClientError, match="no record is marked"):
            await desk.open("reproduce-records", topic=topic)
        for rows, reason in (
            (["0-1", "0-9"], "no longer there"),
            (["3-1"], "has no partition 3"),
            (["1"], "PARTITION-OFFSET"),
        ):
            with pytest.raises(ClientError, match=reason):
                await desk.plan("reproduce-records", values, rows=rows, topic=topic)
        # A record deleted between the plan and its execution is reported, and nothing is produced.
        plan = (await desk.plan("reproduce-records", values, rows=["0-1"], topic=topic))["plan"]
        (await client.topics.delete_records({TopicPartition(topic, 0): 3})).whole()
        assert "no longer there" in (await desk.execute(plan))["problem"]
        assert [record.offset for record in await contents(desk, topic)] == [3, 4]
        monkeypatch.setattr(record_acts, "BYTES_MAX", 1)
        with pytest.raises(ClientError, match="mark fewer"):
            await desk.plan("reproduce-records", values, rows=["0-3", "0-4"], topic=topic)
        desk.identity = seeing(OPERATOR, topics=(topic,))
        with pytest.raises(ClientError, match="may not see topic elsewhere"):
            await desk.plan("reproduce-records", {"topic": "elsewhere"}, rows=["0-4"], topic=topic)
        desk.identity = VIEWER
        with pytest.raises(ClientError, match="needs the role operator"):
            await desk.open("reproduce-records", rows=["0-4"], topic=topic)

    drive(broker.bootstrap, work, OPERATOR)


def test_hidden_records_cannot_be_copied(broker: Target, topic: str) -> None:
    """If this fails, a user reads hidden fields by copying the records to a topic without rules."""
    masking = Masking(
        parse_masks([{"topics": [topic], "fields": ["$.card"]}], lambda reason: ClientError(Failure.INVALID, reason))
    )

    async def work(desk: Desk) -> None:
        await make(desk.hub.session.client, topic, numbered(1))
        with pytest.raises(ClientError, match="cannot be copied"):
            await desk.open("reproduce-records", rows=["0-0"], topic=topic)
        with pytest.raises(ClientError, match="cannot be copied"):
            await desk.plan("reproduce-records", {"topic": topic}, rows=["0-0"], topic=topic)

    drive(broker.bootstrap, work, replace(OPERATOR, scope=Scope()), masking=masking)
