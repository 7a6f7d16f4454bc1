"""The alert file, and what is told of its rules."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from broker_cy.admin import AdminError
from broker_cy.admin.metadata import TopicPartition
from broker_cy.admin.topics import NewTopic
from broker_cy.console.alerts import Rule, Watch, load_rules
from broker_cy.console.session import Session
from broker_cy.wire.records import Record
from tests.admin_tui.conftest import FOR_EVER, Terminal, drive, entry_of
from tests.support.broker import BrokerProcess

GOOD = """\
# Two rules.
[[rule]]
name = "behind"
kind = "lag"
group = "payments*"
records = 10

[[rule]]
name = "disk"
kind = "disk"
free_percent = 5
"""


@pytest.mark.parametrize(
    ("old", "new", "line", "said"),
    [
        ('kind = "lag"', 'kind = "lags"', 4, "kind = 'lags': one of lag, offline_partition"),
        ("records = 10", "record = 10", 6, "record is not known of kind lag"),
        ("records = 10", 'records = "10"', 6, "records = '10': a whole number is expected"),
        ("records = 10", "records = true", 6, "a whole number is expected"),
        ("records = 10", "", 4, "needs records or seconds"),
        ("free_percent = 5", "free_percent = 101", 11, "at most 100"),
        ("free_percent = 5", "free_percent = -1", 11, "0 or more"),
        ('name = "disk"', 'name = "behind"', 9, "is there twice"),
        ('name = "disk"', "", 8, "name is missing"),
        ('name = "disk"', 'name = ""', 9, "name is empty"),
        ("[[rule]]", "[[rules]]", 2, "rules is not known"),
    ],
)
def test_a_bad_rule_is_refused_with_file_line_and_key(tmp_path: Path, old: str, new: str, line: int, said: str) -> None:
    """A rule that says something else than was meant never fires."""
    path = tmp_path / "alerts.toml"
    path.write_text(GOOD.replace(old, new))
    with pytest.raises(AdminError) as caught:
        load_rules(path)
    assert f"{path}, line {line}: " in str(caught.value)
    assert said in str(caught.value)


def test_files_that_cannot_be_read_are_refused(tmp_path: Path) -> None:
    """The console runs without the rules that somebody relies on."""
    with pytest.raises(AdminError, match="cannot be read"):
        load_rules(tmp_path / "absent.toml")
    (tmp_path / "broken.toml").write_text("[[rule]\n")
    with pytest.raises(AdminError, match="is no TOML"):
        load_rules(tmp_path / "broken.toml")


def test_lag_is_told_once_and_recovers(broker_cy: BrokerProcess, name: str) -> None:
    """Nobody hears that a group falls behind, or hears it every five seconds."""
    clock = [100.0]
    watch = Watch([Rule("behind", "lag", for_s=10, group=name, records=3)], clock=lambda: clock[0])

    async def job() -> None:
        session = Session(entry_of(broker_cy.bootstrap), client_id="test")
        try:
            await session.client.topics.create([NewTopic(name, 1)])
            key = TopicPartition(name, 0)
            await session.client.records.producer().send(name, [Record(value=b"x")] * 5)
            await session.client.group_offsets.alter(name, {key: 5})
            assert await watch.look(session) == []
            assert [finding.state for finding in watch.findings] == ["ok"]
            await session.client.group_offsets.alter(name, {key: 1})
            assert await watch.look(session) == []
            assert [finding.state for finding in watch.findings] == ["waiting"]
            clock[0] += 11
            assert await watch.look(session) == [f"behind: {name} is 4 records behind (allowed 3)"]
            assert await watch.look(session) == []
            assert len(watch.broken) == 1
            await session.client.group_offsets.alter(name, {key: 5})
            assert await watch.look(session) == []
            assert watch.broken == []
        finally:
            await session.close()

    asyncio.run(job())


def test_every_kind_of_rule_is_looked_at(broker_cy: BrokerProcess, name: str) -> None:
    """A rule of another kind is accepted and never looked at."""
    rules = [
        Rule("room", "disk", free_percent=100),
        Rule("bytes", "disk", free_bytes=0),
        Rule("leader", "offline_partition"),
        Rule("late", "lag", group=name, seconds=1),
        Rule("hangs", "hanging_transaction", topic=name),
    ]
    watch = Watch(rules)

    async def job(terminal: Terminal) -> None:
        client = terminal.client
        await client.topics.create([NewTopic(name, 1, configs=FOR_EVER)])
        await client.records.producer().send(name, [Record(timestamp=1_000_000_000_000, value=b"old")])
        await client.group_offsets.alter(name, {TopicPartition(name, 0): 0})
        await watch.look(terminal.app.session)
        states = {finding.rule.name: finding.state for finding in watch.findings}
        assert states == {"room": "broken", "bytes": "ok", "leader": "ok", "late": "broken", "hangs": "ok"}
        await terminal.command("alerts")
        await terminal.shows("broken", "room", "late", "2 alerts")

    drive(broker_cy.bootstrap, job, alerts=watch)


def test_a_cluster_that_is_away_is_unknown_and_not_well(name: str) -> None:
    """A broker that is down counts as one without lag."""
    watch = Watch([Rule("behind", "lag", records=1)])

    async def job() -> None:
        session = Session(entry_of("127.0.0.1:1"), client_id="test", timeout_s=0.5)
        try:
            assert await watch.look(session) == []
            (finding,) = watch.findings
            assert finding.state == "unknown"
            assert "127.0.0.1:1" in finding.text
        finally:
            await session.close()

    asyncio.run(job())
