"""Transactions: open ones, and hanging ones, which can be aborted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from admin_tui.screens.view import View
from admin_tui.widgets.columns import grid_column
from admin_tui.widgets.grid import Grid
from broker_cy.admin.transactions import HangingTransaction, TransactionListing
from broker_cy.console.acts.plan import Plan
from broker_cy.console.acts.transactions import plan_abort
from broker_cy.console.columns import transactions
from broker_cy.console.feed_values import OpenTransaction


def _listing(row: OpenTransaction) -> TransactionListing:
    return row.listing


class TransactionsView(View):
    """Transactional ids and hanging transactions."""

    NAME = "transactions"
    ABOUT = """The upper table has every transactional id with its state; for open transactions, their age and their
    partitions.

The lower table has hanging transactions: they are open in a partition, their producer has been silent for longer than
any transaction may last, and no coordinator will end them. Consumers of committed records wait for them forever. `a`
aborts one."""
    CHANGES = frozenset({"abort"})
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("o", "only_open", "Only open", id="transactions.only_open"),
        Binding("a", "abort", "Abort", id="transactions.abort"),
    ]
    DEFAULT_CSS = "TransactionsView #listed { height: 3fr; } TransactionsView #hanging { height: 2fr; }"

    def __init__(self) -> None:
        super().__init__()
        self._only_open = False

    def body(self) -> ComposeResult:
        yield Grid[OpenTransaction](
            [
                grid_column(transactions.TRANSACTIONAL_ID.of(_listing), flex=True, letter="I"),
                grid_column(transactions.STATE.of(_listing), letter="S"),
                grid_column(transactions.OPEN_FOR, letter="O"),
                grid_column(transactions.TIMEOUT, drop=3),
                grid_column(transactions.PRODUCER_ID.of(_listing), 11, drop=1),
                grid_column(transactions.PARTITIONS),
                grid_column(transactions.COORDINATOR.of(_listing), drop=2),
            ],
            key=lambda row: row.listing.transactional_id,
            text=lambda row: f"{row.listing.transactional_id} {row.listing.state} {row.listing.producer_id}",
            title="Transactional ids",
            id="listed",
            sort="Transactional id",
        )
        yield Grid[HangingTransaction](
            [
                grid_column(transactions.HANGING_PARTITION, flex=True),
                grid_column(transactions.HANGING_PRODUCER_ID, 12),
                grid_column(transactions.HANGING_EPOCH, drop=2),
                grid_column(transactions.HANGING_START_OFFSET, drop=1),
                grid_column(transactions.HANGING_IDLE, letter="I"),
                grid_column(transactions.HANGING_ID, drop=3),
            ],
            key=lambda row: (row.partition, row.producer.producer_id),
            title="Hanging",
            id="hanging",
        )

    def connect(self) -> None:
        self.link(self.session.transactions(), self.query_one("#listed"), self._show)
        self.link(self.session.hanging(), self.query_one("#hanging"), self._show_hanging)
        self.query_one("#listed").focus()

    def _show(self) -> None:
        rows = self.session.transactions().value
        if rows is not None:
            self.query_one("#listed", Grid).set_rows(
                row for row in rows if not self._only_open or row.listing.state in transactions.OPEN_TONES
            )

    def _show_hanging(self) -> None:
        rows = self.session.hanging().value
        if rows is not None:
            self.query_one("#hanging", Grid).set_rows(rows)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action == "abort" and (not self.query("#hanging") or self.query_one("#hanging", Grid).selected is None):
            return False
        return super().check_action(action, parameters)

    def action_only_open(self) -> None:
        self._only_open = not self._only_open
        self._show()

    def action_abort(self) -> None:
        row: HangingTransaction | None = self.query_one("#hanging", Grid).selected
        if row is None:
            return
        chosen = row

        async def plan(values: Mapping[str, Any]) -> Plan:
            return await plan_abort(self.client, self.command, chosen)

        self.act(plan)
