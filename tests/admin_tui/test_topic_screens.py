"""Every action on topics, and the actions that are refused."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path

import pytest

from admin_tui.screens.topics import TopicsView
from bench.launch.nodes import free_ports
from broker_cy.admin.address import parse_addresses
from broker_cy.admin.client import AdminClient
from broker_cy.admin.configs import ConfigResource, ResourceType
from broker_cy.admin.metadata import TopicPartition
from broker_cy.admin.segments import segments_of
from broker_cy.admin.topics import NewTopic
from broker_cy.wire.records import Record
from tests.admin_tui.conftest import Terminal, drive
from tests.support.broker import BrokerProcess
from tests.support.certificates import Authority


async def open_topics(terminal: Terminal, name: str, *topics: NewTopic) -> TopicsView:
    """Show the list of topics, filtered to `name`, with the cursor on the first of them."""
    for outcome in [await terminal.client.topics.create(topics)] if topics else []:
        outcome.whole()
    await terminal.command("topics")
    await terminal.goes_to("topics")
    view = terminal.app.screen
    assert isinstance(view, TopicsView)
    view.filter(name)
    if topics:
        await terminal.until(lambda: len(view.grid.view) == len(topics), "the topics")
    return view


def test_create_checks_each_field_and_the_broker_the_rest(broker_cy: BrokerProcess, name: str) -> None:
    """If this fails, a topic with a wrong setting is created, or the broker's error is not shown."""

    async def job(terminal: Terminal) -> None:
        await open_topics(terminal, name)
        await terminal.press("c")
        await terminal.fill(name="bad name", partitions="0")
        await terminal.shows("' ' is not allowed", "1 to 100000")
        await terminal.fill(name=name, partitions="3", settings="retention.ms=soon")
        # The form is shown again with the typed values, and accepts another value.
        await terminal.shows("INVALID_CONFIG", name, "retention.ms=soon")
        await terminal.fill(settings="retention.ms=3600000")
        await terminal.shows("3 partitions", f"broker-cy topics create {name} -p 3 --set retention.ms=3600000")
        await terminal.press("tab", "enter")
        await terminal.shows(f"created topic {name} with")
        info = (await terminal.client.topics.describe([name])).whole()[name]
        assert len(info.partitions) == 3

    drive(broker_cy.bootstrap, job, size=(110, 30))


def test_delete_asks_for_the_name_and_cancel_is_safe(broker_cy: BrokerProcess, name: str) -> None:
    """If this fails, one wrong key deletes a topic."""

    async def job(terminal: Terminal) -> None:
        await open_topics(terminal, name, NewTopic(name, 2))
        await terminal.client.records.producer().send(name, [Record(value=b"x")] * 7, partition=0)
        await terminal.press("ctrl+d")
        await terminal.shows("2 partitions with 7 offsets", "permanently deletes", f"topics delete {name} --yes")
        await terminal.press("enter")
        await terminal.shows("nothing was changed")
        await terminal.type(name[:-1])
        await terminal.press("enter")
        await terminal.shows("nothing was changed")
        await terminal.press("escape")
        assert name in (await terminal.client.topics.describe([name])).found
        await terminal.press("ctrl+d")
        await terminal.shows("Type")
        await terminal.type(name)
        await terminal.press("enter")
        await terminal.shows("deleted 1 topic")
        assert name not in (await terminal.client.topics.describe([name])).found

    drive(broker_cy.bootstrap, job)


def test_many_marked_topics_are_deleted_together(broker_cy: BrokerProcess, name: str) -> None:
    """If this fails, marks are lost, or another topic is deleted with the marked ones."""
    topics = [NewTopic(f"{name}-{n}", 1) for n in range(3)]

    async def job(terminal: Terminal) -> None:
        await open_topics(terminal, name, *topics)
        await terminal.press("space", "space", "ctrl+d")
        await terminal.shows("Type 2 topics to confirm", f"{name}-0: 0 offsets", f"{name}-1: 0 offsets")
        await terminal.type("2 topics")
        await terminal.press("enter")
        await terminal.shows("deleted 2 topics")
        names = {topic.name for topic in await terminal.client.topics.list_all()}
        assert {each for each in names if each.startswith(name)} == {f"{name}-2"}

    drive(broker_cy.bootstrap, job)


def test_partitions_clone_and_records(broker_cy: BrokerProcess, name: str) -> None:
    """If this fails, growing, cloning or trimming does something other than the preview shows."""

    async def job(terminal: Terminal) -> None:
        await open_topics(terminal, name, NewTopic(name, 2, configs={"retention.ms": "3600000"}))
        await terminal.press("a")
        await terminal.fill(total="2")
        await terminal.shows("3 to 100000")
        await terminal.fill(total="4")
        await terminal.shows("2 -> 4 partitions")
        await terminal.press("tab", "enter")
        await terminal.shows(f"{name} now has 4 partitions")
        await terminal.press("y")
        await terminal.fill(name=f"{name}-copy", partitions="1")
        await terminal.shows("retention.ms = 3600000", f"topics clone {name} {name}-copy -p 1")
        await terminal.press("tab", "enter")
        await terminal.shows(f"created topic {name}-copy")
        resource = ConfigResource(ResourceType.TOPIC, f"{name}-copy")
        (entry,) = (await terminal.client.configs.describe([resource], names=["retention.ms"])).whole()[resource]
        assert entry.value == "3600000"
        await terminal.client.records.producer().send(name, [Record(value=b"x")] * 10, partition=1)
        await terminal.press("x")
        await terminal.fill(before="6", partitions="9")
        await terminal.shows("partition 9 does not exist")
        await terminal.fill(before="6", partitions="1")
        await terminal.shows(
            "6 offsets of 1 partition", "partition 1: start 0 -> 6", f"records delete {name} --before 6 -p 1"
        )
        await terminal.type(name)
        await terminal.press("enter")
        await terminal.shows("deleted records of 1 partition")
        key = TopicPartition(name, 1)
        assert (await terminal.client.offsets.earliest([key])).whole() == {key: 6}

    drive(broker_cy.bootstrap, job, size=(110, 30))


def test_settings_are_checked_beside_the_field_and_changed(broker_cy: BrokerProcess, name: str) -> None:
    """If this fails, a setting is changed to nonsense, or cannot be reset."""

    async def job(terminal: Terminal) -> None:
        (await terminal.client.topics.create([NewTopic(name, 1)])).whole()
        await terminal.command(f"topic-settings {name}")
        await terminal.shows("cleanup.policy")
        grid = terminal.app.screen.query_one("Grid")
        terminal.app.screen.filter("retention.ms")  # type: ignore[attr-defined]
        grid.move_to(next(at for at, row in enumerate(grid.view) if row.name == "retention.ms"))  # type: ignore[attr-defined]
        await terminal.press("e")
        await terminal.fill(value="a week")
        await terminal.shows("a whole number")
        await terminal.fill(value="-5")
        # Only the broker can check this rule: its error is shown, and nothing is changed.
        await terminal.shows("INVALID_CONFIG")
        await terminal.fill(value="7200000")
        await terminal.shows(
            "retention.ms: 604800000 -> 7200000", f"configs alter topic {name} --set=retention.ms=7200000"
        )
        await terminal.press("tab", "enter")
        await terminal.shows("7200000  (2 h)")
        await terminal.press("ctrl+d")
        await terminal.shows("7200000 -> its default")
        await terminal.press("tab", "enter")
        await terminal.shows("604800000  (7 d)")

    drive(broker_cy.bootstrap, job, size=(110, 30))


@pytest.mark.parametrize("size", [(80, 24), (160, 50)])
def test_partitions_are_counted_by_reading(broker_cy: BrokerProcess, name: str, size: tuple[int, int]) -> None:
    """If this fails, users take offsets for records."""

    async def job(terminal: Terminal) -> None:
        (await terminal.client.topics.create([NewTopic(name, 1)])).whole()
        await terminal.client.records.producer().send(name, [Record(value=b"x")] * 5)
        await terminal.command(f"topic {name}")
        await terminal.shows("Partitions · 1")
        await terminal.press("c")
        await terminal.shows("5 records at 5 offsets of 1 partition")

    drive(broker_cy.bootstrap, job, size=size)


def test_segments_behind_a_token_and_tls(tmp_path: Path, name: str) -> None:
    """If this fails, consoles do not show segments of brokers whose metrics are protected."""
    authority, tokens = Authority(), tmp_path / "tokens"
    tokens.write_text("a-token-that-nobody-guesses\n")
    settings = {
        "brokercy.metrics.listener": f"127.0.0.1:{free_ports(1)[0]}",
        "brokercy.metrics.token.file": str(tokens),
        "brokercy.metrics.ssl.certificate.file": str(authority.issue("broker").write_pem(tmp_path / "broker.pem")),
    }
    broker = BrokerProcess(tmp_path / "data", settings)
    broker.start()

    async def work() -> None:
        async with AdminClient(parse_addresses(broker.bootstrap)) as client:
            (await client.topics.create([NewTopic(name, 2)])).whole()
            context = ssl.create_default_context(cadata=authority.pem)
            assert await segments_of(client.caller, name, tokens, context) == {0: 1, 1: 1}
            assert await segments_of(client.caller, name, None, context) == {}
            assert await segments_of(client.caller, name, tokens) == {}

    try:
        asyncio.run(work())
    finally:
        broker.close()


def test_segments_are_shown(broker_cy: BrokerProcess, name: str) -> None:
    """If this fails, users do not see that retention keeps old records because only whole segments are deleted."""

    async def job(terminal: Terminal) -> None:
        wanted = NewTopic(name, 2, configs={"segment.bytes": "1048576"})
        (await terminal.client.topics.create([wanted])).whole()
        producer = terminal.client.records.producer()
        for _ in range(3):
            await producer.send_batch(TopicPartition(name, 1), [Record(value=bytes(700_000))])
        assert await segments_of(terminal.client.caller, name) == {0: 1, 1: 3}
        await terminal.command(f"topic {name}")
        await terminal.shows("Partitions · 2", "Segments")
        rows = terminal.app.session.partitions(name).value
        assert rows is not None
        assert [row.segments for row in rows] == [1, 3]

    drive(broker_cy.bootstrap, job, size=(120, 30))


def test_readonly_refuses_every_change(broker_cy: BrokerProcess, name: str) -> None:
    """If this fails, a user of a read-only console deletes a topic."""

    async def job(terminal: Terminal) -> None:
        await open_topics(terminal, name, NewTopic(name, 1))
        await terminal.shows("READ-ONLY")
        for key in ("c", "a", "y", "x", "ctrl+d"):
            await terminal.press(key)
            assert terminal.app.screen.is_current
            assert len(terminal.app.screen_stack) == 3
        view = terminal.app.screen
        assert isinstance(view, TopicsView)
        for action in view.CHANGES:
            assert view.check_action(action, ()) is None
            getattr(view, f"action_{action}")()
        await terminal.shows("read-only mode: changes are refused")
        assert name in (await terminal.client.topics.describe([name])).found

    drive(broker_cy.bootstrap, job, is_readonly=True)
