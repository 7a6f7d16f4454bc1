"""Transactions: transactional ids with their open transactions, and hanging transactions, which can be aborted.

A transactional id does not belong to a topic: a viewer who may see only some topics sees the open transactions that
write to them, with those partitions only.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from dash import html
from dash.development.base_component import Component

from broker_cy.admin.transactions import HangingTransaction, TransactionListing
from broker_cy.client.errors import ClientError, Failure
from broker_cy.console.acts.plan import Plan
from broker_cy.console.acts.transactions import plan_abort
from broker_cy.console.columns import transactions
from broker_cy.console.feed_values import OpenTransaction
from broker_cy.console.listeners import Source
from dashboard.acts import Act, Call, act
from dashboard.collector.channel import TableChannel, channel, linked
from dashboard.collector.charts import HistoryChart
from dashboard.collector.columns import table_column
from dashboard.collector.holdings import sees_all_subjects
from dashboard.collector.patches import State
from dashboard.components.panel import act_button, page_path, panel, table
from dashboard.components.ranges import ranges
from dashboard.components.shell import shell
from dashboard.context import Context, Page
from dashboard.pages.group import parse_partition, record_path
from dashboard.security.roles import EVERYTHING, Need, Role

# The maximum age of the list of hanging transactions that a plan is made from; the list is refreshed every 15 s.
HANGING_AGE_S: Final = 20.0
HIDDEN: Final = (
    "The number of open transactions is that of the transactions of all topics and groups; your account may see only "
    "some topics or groups."
)


def _listing(row: OpenTransaction) -> TransactionListing:
    return row.listing


@channel("transactions")
class Transactions(TableChannel[OpenTransaction]):
    """Transactional ids; `open` = 1 leaves out those without an open transaction."""

    SUBJECT = frozenset({"open"})
    SORT = "id"
    COLUMNS = (
        table_column(transactions.TRANSACTIONAL_ID.of(_listing), 200, is_flex=True),
        table_column(transactions.STATE.of(_listing), 140),
        table_column(transactions.OPEN_FOR, 110),
        table_column(transactions.TIMEOUT, 100),
        table_column(transactions.PRODUCER_ID.of(_listing)),
        table_column(transactions.PARTITIONS, 100),
        table_column(transactions.IN_THE_TRANSACTION, 200),
        table_column(transactions.COORDINATOR.of(_listing), 105),
    )

    def sources(self) -> Sequence[Source]:
        return [self.session.transactions()]

    def rows(self) -> Iterable[OpenTransaction] | None:
        found = self.session.transactions().value
        return None if found is None else self._rows(found)

    def _rows(self, found: Iterable[OpenTransaction]) -> Iterable[OpenTransaction]:
        only_open = self.params.get("open") == "1"
        for row in found:
            if only_open and row.listing.state not in transactions.OPEN_TONES:
                continue
            if self.scope.topics == EVERYTHING:
                yield row
            elif seen := tuple(key for key in row.partitions if self.scope.sees_topic(key.topic)):
                yield replace(row, partitions=seen)

    def row_id(self, row: OpenTransaction) -> str:
        return row.listing.transactional_id

    def row_text(self, row: OpenTransaction) -> str:
        return f"{row.listing.transactional_id} {row.listing.state} {row.listing.producer_id}"


@channel("hanging")
class Hanging(TableChannel[HangingTransaction]):
    """Transactions that no coordinator will complete."""

    SORT = "idle"
    IS_DESCENDING = True
    COLUMNS = (
        table_column(transactions.HANGING_PARTITION, 200, is_flex=True),
        table_column(transactions.HANGING_PRODUCER_ID),
        table_column(transactions.HANGING_EPOCH, 80),
        table_column(transactions.HANGING_START_OFFSET, 130, hint="Opens the first record of the transaction"),
        table_column(transactions.HANGING_IDLE, 110),
        table_column(transactions.HANGING_ID, 200),
    )

    def sources(self) -> Sequence[Source]:
        return [self.session.hanging()]

    def rows(self) -> Iterable[HangingTransaction] | None:
        found = self.session.hanging().value
        return None if found is None else [row for row in found if self.scope.sees_topic(row.partition.topic)]

    def row_id(self, row: HangingTransaction) -> str:
        return hanging_id(row)

    def row_text(self, row: HangingTransaction) -> str:
        return f"{hanging_id(row)} {row.transactional_id or ''}"

    def _cells(self, row: HangingTransaction) -> list[Any]:
        cells = super()._cells(row)
        path = record_path(self.hub.name, row.partition, row.producer.txn_start_offset or 0)
        cells[3] = linked(cells[3], path)
        return cells


def hanging_id(row: HangingTransaction) -> str:
    """`orders-0 4711`: partition and producer id."""
    return f"{row.partition} {row.producer.producer_id}"


@channel("transactions-open")
class OpenOverTime(HistoryChart):
    """Samples count the transactions of all producers: a viewer with limited access must not learn the number of the
    others.
    """

    MEASURES = (("open transactions", "open_transactions"),)

    async def state(self) -> State | None:
        if not sees_all_subjects(self.scope):
            raise ClientError(Failure.REFUSED, HIDDEN)
        return await super().state()


@act("abort-transaction", Role.ADMIN)
class AbortTransaction(Act):
    """`rows` has the id of one hanging transaction."""

    def need(self, cluster: str, params: Mapping[str, str], rows: Sequence[str]) -> Need:
        topics = tuple(sorted({parse_partition(row.rpartition(" ")[0]).topic for row in rows}))
        return replace(super().need(cluster, params, rows), topics=topics)

    async def plan(self, call: Call, values: Mapping[str, Any]) -> Plan:
        if len(call.rows) != 1:
            raise ClientError(
                Failure.INVALID, f"{len(call.rows)} transactions are marked: mark one, they are aborted one by one"
            )
        for row in await call.hub.session.hanging().fresh(HANGING_AGE_S):
            if hanging_id(row) == call.rows[0]:
                return await plan_abort(call.client, call.command, row)
        raise ClientError(
            Failure.INVALID, f"no transaction hangs in {call.rows[0]} (partition and producer) any longer"
        )


def layout(context: Context, cluster: str, range: str = "", open: str = "", **_: str) -> Component:
    only_open = open == "1"
    chosen = {"range": range} if range else {}
    toggle = html.A(
        "Show all" if only_open else "Show only open ones",
        href=page_path(cluster, "transactions", open="" if only_open else "1", range=range),
    )
    scope = context.identity().scope
    is_limited = scope.topics != EVERYTHING
    limited = " Your account may see only some topics: open transactions that write to them are listed."
    return shell(
        context,
        cluster,
        "transactions",
        "Transactions",
        [
            table(
                "Hanging transactions",
                "hanging",
                Hanging.COLUMNS,
                cluster=cluster,
                noun="hanging transaction",
                can_mark=True,
                height_rows=4,
                has_filter=False,
                note="Open in a partition, while their producer has been silent for longer than any transaction may "
                "last, and no coordinator will end them. Consumers of committed records wait for them forever.",
                empty="No transaction hangs.",
                actions=[
                    act_button("Abort marked", "abort-transaction", role=Role.ADMIN, destructive=True, rows="marked")
                ],
            ),
            panel(
                "Open transactions",
                "transactions-open",
                "chart",
                cluster=cluster,
                params=chosen,
                options={"height": 180},
                note="Number, from the broker's samples. Marks are events.",
            )
            if sees_all_subjects(scope)
            else html.P(HIDDEN, className="panel"),
            table(
                "Transactional ids",
                "transactions",
                Transactions.COLUMNS,
                cluster=cluster,
                noun="transactional id",
                params={"open": "1"} if only_open else {},
                height_rows=14,
                note=f"Only open transactions have an age, timeout and partitions.{limited if is_limited else ''}",
                actions=[toggle],
            ),
        ],
        actions=[ranges(cluster, "transactions", range, open=open)],
    )


PAGE = Page("transactions", "Transactions", layout)
