"""Browsing, searching, following, producing and exporting in the console."""

from __future__ import annotations

import json
import time
from pathlib import Path

from admin_tui.screens.messages import MessagesView
from broker_cy.admin.metadata import TopicPartition
from broker_cy.admin.records import Start
from broker_cy.admin.topics import NewTopic
from broker_cy.wire.records import Record
from tests.admin_tui.conftest import FOR_EVER, Terminal, drive
from tests.support.broker import BrokerProcess

HOSTILE = b"\x1b]0;owned\x07\x1b[2J\xc2\x9b31m[bold]text[/bold]"


async def with_records(terminal: Terminal, name: str, records: list[Record], partitions: int = 1) -> MessagesView:
    """Show a topic with records."""
    (await terminal.client.topics.create([NewTopic(name, partitions, configs=FOR_EVER)])).whole()
    if records:
        await terminal.client.records.producer().send(name, records)
    await terminal.command(f"messages {name}")
    await terminal.goes_to("messages")
    view = terminal.app.screen
    assert isinstance(view, MessagesView)
    return view


def test_any_record_can_be_shown_and_none_steers_the_terminal(broker_cy: BrokerProcess, name: str) -> None:
    """If this fails, a record clears the screen, changes the title of the terminal, or is interpreted as markup."""
    records = [
        Record(timestamp=1, key=b"hostile", value=HOSTILE, headers=[("\x1b[31m", b"\x1b[31m")]),
        Record(timestamp=2, key=None, value=None),
        Record(timestamp=3, key=b"json", value=b'{"a": {"b": 9007199254740993}}'),
        Record(timestamp=4, key=b"bytes", value=bytes(range(256))),
    ]

    async def job(terminal: Terminal) -> None:
        view = await with_records(terminal, name, records)
        await terminal.shows("hostile", "json", "bytes", "null", "at the end")
        for _ in range(4):
            await terminal.press("d")
            await terminal.shows("offset")
            assert "\x1b" not in terminal.text()
            assert "\x9b" not in terminal.text()
            await terminal.press("v", "v", "v", "v", "escape", "j")
        view.grid.move_to(next(at for at, row in enumerate(view.grid.view) if row.record.key == b"json"))
        await terminal.press("enter")
        await terminal.shows('"b": 9007199254740993')
        await terminal.press("escape")
        view.grid.move_to(next(at for at, row in enumerate(view.grid.view) if row.record.key == b"hostile"))
        await terminal.press("enter")
        await terminal.press("v")
        await terminal.shows("[bold]text[/bold]", "␛]0;owned␇")
        await terminal.press("v", "v")
        await terminal.shows("1b 5d 30 3b")

    drive(broker_cy.bootstrap, job, size=(120, 40))


def test_a_search_says_how_far_it_is_and_ends_with_what_it_found(broker_cy: BrokerProcess, name: str) -> None:
    """If this fails, a search ends without a message, and users do not know whether it covered everything."""
    records = [
        Record(timestamp=1_700_000_000_000 + n, key=b"k%d" % n, value=b'{"user": {"id": %d}}' % (n % 50))
        for n in range(500)
    ]

    async def job(terminal: Terminal) -> None:
        view = await with_records(terminal, name, records, partitions=2)
        await terminal.shows("100 found")
        await terminal.press("f")
        await terminal.fill(start="beginning", path="$.user.id = 7")
        await terminal.shows("100% of 500 offsets", "10 found", "json:$.user.id = 7")
        assert len(view.grid.rows) == 10
        await terminal.press("f")
        await terminal.fill(start="beginning", path="", key="k499")
        await terminal.shows("1 found")
        await terminal.press("f")
        await terminal.fill(start="@1700000000490", key="")
        await terminal.shows("10 found")
        # The problem is shown below its field, and nothing is read.
        await terminal.press("f")
        await terminal.fill(start="yesterday", path="user")
        await terminal.shows("is not a position", "is not a path")
        await terminal.press("escape")
        await terminal.shows("10 found")

    drive(broker_cy.bootstrap, job, size=(120, 30))


def test_following_shows_what_arrives_and_stops(broker_cy: BrokerProcess, name: str) -> None:
    """If this fails, live mode misses records, or cannot be stopped."""

    async def job(terminal: Terminal) -> None:
        view = await with_records(terminal, name, [Record(value=b"before")])
        await terminal.shows("before")
        await terminal.press("t")
        await terminal.shows("live", "0 seen")
        await terminal.client.records.producer().send(name, [Record(value=b"after-%d" % n) for n in range(3)])
        await terminal.shows("after-0", "after-2", "3 seen", "0 dropped")
        await terminal.hides("before")
        await terminal.press("s")
        await terminal.shows("stopped")
        await terminal.client.records.producer().send(name, [Record(value=b"later")])
        await terminal.press("s")
        await terminal.shows("later", "4 seen")
        await terminal.press("t")
        await terminal.shows("before")
        assert view.tail is None

    drive(broker_cy.bootstrap, job)


def test_producing_and_producing_again(broker_cy: BrokerProcess, name: str) -> None:
    """If this fails, a message cannot be sent, or a dead letter cannot be sent again with other headers."""

    async def job(terminal: Terminal) -> None:
        await with_records(terminal, name, [])
        await terminal.shows("nothing found")
        await terminal.press("p")
        await terminal.fill(key="k", value="v")
        # A key was typed although the field below says that it is null.
        await terminal.shows("a key was typed")
        await terminal.fill(key="00 ff", key_kind="hex", value='{"n": 1}', headers="dead=letter, kept=yes")
        await terminal.shows("1 record", "key 00 ff", "echo ", "--json-lines", "base64")
        await terminal.press("tab", "enter")
        await terminal.shows("at offset 0", '{"n": 1}')
        await terminal.press("r")
        await terminal.fill(topic=name, remove="dead", add="again=1")
        await terminal.shows("1 record")
        await terminal.press("tab", "enter")
        await terminal.shows("2 found")
        spans = await terminal.client.records.spans([TopicPartition(name, 0)], Start.earliest())
        async with terminal.client.records.reader(
            {TopicPartition(name, 0): 0}, ends={k: s.end for k, s in spans.items()}
        ) as reader:
            records = [record async for chunk in reader for record in chunk.records]
        assert [record.key for record in records] == [b"\x00\xff"] * 2
        assert records[0].headers == (("dead", b"letter"), ("kept", b"yes"))
        assert records[1].headers == (("kept", b"yes"), ("again", b"1"))

    drive(broker_cy.bootstrap, job, size=(120, 40))


def test_export_writes_lines_that_can_be_produced_again(broker_cy: BrokerProcess, name: str, tmp_path: Path) -> None:
    """If this fails, an export leaves records out, or overwrites a file."""
    now = int(time.time() * 1000)
    records = [Record(timestamp=now + n, key=b"k", value=b"%d" % n) for n in range(300)]

    async def job(terminal: Terminal) -> None:
        await with_records(terminal, name, [*records, Record(timestamp=now + 999, value=b"\xff")])
        await terminal.shows("100 found")
        path = tmp_path / "shown.jsonl"
        await terminal.press("o")
        await terminal.fill(path=str(path))
        await terminal.until(lambda: path.exists() and len(path.read_bytes().splitlines()) == 100, "the file")
        await terminal.press("o")
        await terminal.fill(path=str(path))
        await terminal.shows("already exists")
        everything = tmp_path / "all.jsonl"
        await terminal.press("escape", "f")
        await terminal.fill(start="beginning", value="1")
        await terminal.shows("found", "value:1")
        await terminal.press("o")
        await terminal.fill(path=str(everything), what="all that match")
        wanted = [record.value.decode() for record in records if record.value is not None and b"1" in record.value]
        await terminal.until(
            lambda: everything.exists() and len(everything.read_bytes().splitlines()) == len(wanted), "the file"
        )
        lines = [json.loads(line) for line in everything.read_text().splitlines()]
        assert [line["value"] for line in lines] == wanted
        first = json.loads(path.read_text().splitlines()[0])
        assert first["value"] == {"base64": "/w=="}

    drive(broker_cy.bootstrap, job, size=(120, 40))
