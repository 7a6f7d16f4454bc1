"""Transactions and producers: open and hanging transactions, aborting, and the view of users with a limited scope."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from confluent_kafka import Producer as ConfluentProducer

from broker_cy.admin.metadata import TopicPartition
from broker_cy.admin.topics import NewTopic
from broker_cy.client.errors import ClientError
from broker_cy.wire.records import Record
from tests.dashboard.pages.group_kit import drive, layout_of, seeing
from tests.dashboard.support import ADMIN, OPERATOR, VIEWER, Desk, Looker
from tests.support.broker import Target
from tests.support.hanging import leave_hanging

# A transaction whose producer is silent for a second counts as hanging.
BROKER_SETTINGS = {"transaction.partition.verification.enable": "false", "transaction.max.timeout.ms": "1000"}


async def hanging_row(desk: Desk, looker: Looker, name: str) -> str:
    """Wait until a hanging transaction is listed, and return its id."""
    desk.hub.session.refresh()
    state = await looker.until(lambda state: any(row["id"].startswith(f"{name}-0 ") for row in state["rows"]))
    return next(str(row["id"]) for row in state["rows"] if row["id"].startswith(f"{name}-0 "))


def test_a_hanging_transaction_is_found_and_aborted(broker: Target, topic: str) -> None:
    """If this fails, read_committed consumers wait forever, and users cannot see why or abort the transaction."""

    async def job(desk: Desk) -> None:
        client = desk.hub.session.client
        producer_id = await leave_hanging(client, topic)
        await client.records.producer().send(topic, [Record(value=b"after")])
        looker = desk.look("hanging")
        row = await hanging_row(desk, looker, topic)
        assert row == f"{topic}-0 {producer_id}"
        cells = next(each["cells"] for each in looker.states[-1]["rows"] if each["id"] == row)
        assert cells[1] == str(producer_id)
        assert cells[3] == {"t": "0", "href": f"/c/test/records?topic={topic}&from=0&partitions=0"}
        plan = (await desk.open("abort-transaction", rows=[row]))["plan"]
        assert (plan["title"], plan["typed"]) == (f"Abort in {topic}-0", topic)
        assert "the following 2 offsets" in plan["affected"]
        assert f"transactions abort {topic} 0 --producer-id {producer_id} --yes" in plan["command"]
        with pytest.raises(ClientError, match="nothing was changed"):
            await desk.execute(plan)
        assert "aborted the transaction" in (await desk.execute(plan, topic))["said"]
        key = TopicPartition(topic, 0)
        state, *_ = (await client.transactions.producers([key])).whole()[key]
        assert state.txn_start_offset is None
        # It leaves the list, and cannot be aborted again.
        await looker.until(lambda state: all(each["id"] != row for each in state["rows"]))
        with pytest.raises(ClientError, match="any longer"):
            await desk.open("abort-transaction", rows=[row])

    drive(broker.bootstrap, job)


def test_only_administrators_abort_and_one_at_a_time(broker: Target, topic: str) -> None:
    """If this fails, a user who is not an administrator aborts transactions, or an administrator aborts several by
    mistake.
    """

    async def job(desk: Desk) -> None:
        await leave_hanging(desk.hub.session.client, topic)
        row = await hanging_row(desk, desk.look("hanging"), topic)
        desk.identity = OPERATOR
        with pytest.raises(ClientError, match="role admin"):
            await desk.open("abort-transaction", rows=[row])
        desk.identity = seeing(ADMIN, topics=("elsewhere",))
        with pytest.raises(ClientError, match=f"may not see topic {topic}"):
            await desk.open("abort-transaction", rows=[row])
        assert (await desk.state("hanging"))["total"] == 0
        desk.identity = ADMIN
        for rows, said in (([], "0 transactions"), ([row, row], "2 transactions"), (["x"], "number of a partition")):
            with pytest.raises(ClientError, match=said):
                await desk.open("abort-transaction", rows=rows)

    drive(broker.bootstrap, job)


def test_open_transactions_and_producers_are_listed(make_broker: Callable[[], Target], topic: str) -> None:
    """If this fails, users cannot see what keeps a transaction open, or accounts see topics that they may not."""
    broker, secret = make_broker(), f"{topic}-secret"

    async def job(desk: Desk) -> None:
        client = desk.hub.session.client
        (await client.topics.create([NewTopic(topic, 1), NewTopic(secret, 1)])).whole()
        looker = desk.look("transactions", open="1", filter=topic)
        desk.identity = seeing(VIEWER, topics=(topic,))
        limited = desk.look("transactions", open="1")
        producer = ConfluentProducer({"bootstrap.servers": broker.bootstrap, "transactional.id": topic})
        await asyncio.to_thread(producer.init_transactions, 20)
        producer.begin_transaction()
        for each in (topic, secret):
            producer.produce(each, b"open")
        assert await asyncio.to_thread(producer.flush, 20) == 0
        desk.hub.session.refresh()
        state = await looker.until(lambda state: state["rows"] and state["rows"][0]["cells"][5] == "2")
        cells = state["rows"][0]["cells"]
        assert (cells[0], cells[1]["t"], cells[3]) == (topic, "Ongoing", "1 m")
        assert cells[6] == f"{topic} 0  {secret} 0"
        # An account that may see one of the topics learns nothing about the other.
        state = await limited.until(lambda state: state["rows"])
        assert state["rows"][0]["cells"][5:7] == ["1", f"{topic} 0"]
        assert "secret" not in str(limited.states)
        with pytest.raises(ClientError, match="may not see topic"):
            desk.look("producers", topic=secret)
        (found,) = (await desk.rows("producers", lambda state: state["rows"], topic=topic)).values()
        assert (found["partition"], found["epoch"], found["sequence"], found["open"]) == ("0", "0", "0", "0")
        assert found["written"].startswith("@")
        desk.identity = ADMIN
        await asyncio.to_thread(producer.abort_transaction, 20)
        everything = desk.look("transactions", filter=topic)
        desk.hub.session.refresh()
        state = await everything.until(lambda state: state["rows"] and state["rows"][0]["cells"][1] == "CompleteAbort")
        assert state["rows"][0]["cells"][5] == "0"
        # Without an open transaction, the topics of a transactional id are unknown.
        assert (await limited.until(lambda state: not state["rows"]))["total"] == 0

    drive(broker.bootstrap, job)


@pytest.mark.parametrize(
    ("channel", "params", "said"),
    [
        ("producers", {}, "'topic' is missing"),
        ("transactions", {"sort": "coordinator"}, "cannot sort by"),
        ("hanging", {"topic": "x"}, "unknown parameter"),
        ("transactions-open", {"range": "1y"}, "range '1y'"),
    ],
)
def test_bad_parameters_are_refused(broker: Target, channel: str, params: dict[str, str], said: str) -> None:
    """If this fails, a wrong link shows an error without a reason."""

    async def job(desk: Desk) -> None:
        with pytest.raises(ClientError, match=said):
            desk.look(channel, **params)

    drive(broker.bootstrap, job)


def test_producers_of_a_topic_that_is_gone_are_an_error(broker: Target, topic: str) -> None:
    """If this fails, an old link shows an empty table, as if the topic had no producers."""

    async def job(desk: Desk) -> None:
        assert "UNKNOWN_TOPIC_OR_PARTITION" in await desk.look("producers", topic=topic).failed()

    drive(broker.bootstrap, job)


def test_pages_are_built_with_their_links(broker: Target) -> None:
    """If this fails, a shared link shows an error, or the page does not tell a limited account that it sees only a
    part.
    """

    async def job(desk: Desk) -> None:
        assert "Show all" in layout_of(desk, "transactions", open="1", range="1h")
        desk.identity = seeing(VIEWER, topics=("x",))
        assert "may see only some topics" in layout_of(desk, "transactions")
        assert "Producers of x" in layout_of(desk, "producers", topic="x")
        with pytest.raises(ClientError, match="'topic' is missing"):
            layout_of(desk, "producers")

    drive(broker.bootstrap, job)


def test_the_number_of_open_transactions_is_for_those_who_see_all(broker: Target) -> None:
    """If this fails, a viewer of one topic sees when others begin and end transactions."""

    async def job(desk: Desk) -> None:
        await desk.state("transactions-open", lambda state: state["series"])
        assert "transactions-open" in layout_of(desk, "transactions")
        for limited in (seeing(VIEWER, topics=("x",)), seeing(VIEWER, groups=("x",))):
            desk.identity = limited
            looker = desk.look("transactions-open")
            assert "your account may see only some" in await looker.failed()
            assert not any(looker.states)
            page = layout_of(desk, "transactions")
            assert "The number of open transactions" in page
            assert "transactions-open" not in page

    drive(broker.bootstrap, job)
