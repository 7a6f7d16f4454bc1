"""Open and hanging transactions, producers, and the screens of the broker's own data."""

from __future__ import annotations

import pytest
from confluent_kafka import Producer as ConfluentProducer

from broker_cy.admin.configs import AlterOp, ConfigChange, ConfigResource, ResourceType
from broker_cy.admin.metadata import TopicPartition
from broker_cy.admin.topics import NewTopic
from broker_cy.wire.records import Record
from tests.admin_tui.conftest import Terminal, drive
from tests.support.broker import BrokerProcess
from tests.support.hanging import leave_hanging


def test_a_hanging_transaction_is_found_and_aborted(broker_cy: BrokerProcess, name: str) -> None:
    """If this fails, read_committed consumers wait forever, and users cannot see why."""

    async def job(terminal: Terminal) -> None:
        await leave_hanging(terminal.client, name)
        await terminal.client.records.producer().send(name, [Record(value=b"after")])
        await terminal.command("transactions")
        await terminal.goes_to("transactions")
        grid = terminal.app.screen.query_one("#hanging")

        # It hangs a second after it began; a refresh shows it.
        while not any(row.partition.topic == name for row in grid.rows):  # type: ignore[attr-defined]
            await terminal.press("ctrl+r")
            await terminal.pilot.pause(0.2)
        await terminal.shows(f"{name}-0")
        grid.focus()
        grid.move_to(next(at for at, row in enumerate(grid.view) if row.partition.topic == name))  # type: ignore[attr-defined]
        await terminal.press("a")
        await terminal.shows(f"Abort in {name}-0", f"transactions abort {name} 0 --producer-id", "following")
        await terminal.type(name)
        await terminal.press("enter")
        await terminal.shows("aborted the transaction")
        key = TopicPartition(name, 0)
        (state, *_) = (await terminal.client.transactions.producers([key])).whole()[key]
        assert state.txn_start_offset is None

    drive(broker_cy.bootstrap, job, size=(120, 40))


def test_open_transactions_and_producers_are_listed(broker_cy: BrokerProcess, name: str) -> None:
    """If this fails, users cannot see which producer keeps a transaction open."""

    async def job(terminal: Terminal) -> None:
        (await terminal.client.topics.create([NewTopic(name, 1)])).whole()
        producer = ConfluentProducer(
            {
                "bootstrap.servers": broker_cy.bootstrap,
                "transactional.id": name,
                "transaction.timeout.ms": 1000,
                "message.timeout.ms": 1000,
                "linger.ms": 0,
            }
        )
        producer.init_transactions(20)
        producer.begin_transaction()
        producer.produce(name, b"open")
        assert producer.flush(20) == 0
        await terminal.command("transactions")
        await terminal.shows(name)
        await terminal.command(f"producers {name}")
        await terminal.goes_to("producers")
        await terminal.until(lambda: terminal.app.screen.grid.rows, "the producer")  # type: ignore[attr-defined]
        (row,) = terminal.app.screen.grid.rows  # type: ignore[attr-defined]
        assert row[1].producer_epoch >= 0

    drive(broker_cy.bootstrap, job, size=(120, 40))


def test_what_changed_is_shown_with_who_did_it(broker_cy: BrokerProcess, name: str) -> None:
    """If this fails, users cannot see when a setting was changed, and by which client."""

    async def job(terminal: Terminal) -> None:
        (await terminal.client.topics.create([NewTopic(name, 3)])).whole()
        change = ConfigChange("retention.ms", AlterOp.SET, "1234000")
        (await terminal.client.configs.alter({ConfigResource(ResourceType.TOPIC, name): [change]})).whole()
        await terminal.command("events")
        await terminal.goes_to("events")
        terminal.app.screen.filter(name)  # type: ignore[attr-defined]
        await terminal.shows("topic created", "config changed", "retention.ms", "1234000", "broker-tui")

    drive(broker_cy.bootstrap, job, size=(160, 50))


@pytest.mark.parametrize(
    ("view", "texts"),
    [
        ("overview", ["Health", "connections", "Produce p99", "Busiest topics", "Recent events"]),
        ("brokers", ["controller", "127.0.0.1"]),
        ("broker-settings 1", ["add.partitions.to.txn", "default"]),
        ("log-dirs", ["Log directories", "ok", "__cluster_events"]),
        ("metrics", ["Requests/s", "Fetch", "Phases of", "handler"]),
        ("connections", ["broker-tui", "127.0.0.1"]),
        ("quorum", ["Features", "metadata.version"]),
        ("alerts", ["offline partitions", "no quorum leader"]),
    ],
)
@pytest.mark.parametrize("size", [(80, 24), pytest.param((160, 50), marks=pytest.mark.full)])
def test_every_other_screen_has_its_data(
    broker_cy: BrokerProcess, view: str, texts: list[str], size: tuple[int, int]
) -> None:
    """If this fails, a screen stays empty, or breaks in a small terminal."""

    async def job(terminal: Terminal) -> None:
        if view != "overview":
            await terminal.command(view)
        await terminal.shows(*texts)

    drive(broker_cy.bootstrap, job, size=size)
