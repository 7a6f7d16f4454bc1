"""Transactions: open ones, and hanging ones, which can be aborted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from admin_tui.screens.view import View
from admin_tui.widgets.grid import Column, Grid
from broker_cy.admin.transactions import HangingTransaction
from broker_cy.console.acts.plan import Plan
from broker_cy.console.acts.transactions import plan_abort
from broker_cy.console.session import OpenTransaction
from broker_cy.reporting.foreign_text import clean
from broker_cy.reporting.numbers import count, duration

_STYLES = {"Ongoing": "cyan", "PrepareCommit": "yellow", "PrepareAbort": "yellow"}


def _open(row: OpenTransaction) -> Text:
    if row.open_ms is None:
        return Text("-", "bright_black")
    late = row.timeout_ms is not None and row.open_ms > row.timeout_ms
    return Text(duration(row.open_ms), "bold red" if late else "")


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
                Column(
                    "Transactional id",
                    lambda row: clean(row.listing.transactional_id),
                    18,
                    lambda row: row.listing.transactional_id,
                    flex=True,
                    letter="I",
                ),
                Column(
                    "State",
                    lambda row: Text(row.listing.state, _STYLES.get(row.listing.state, "")),
                    14,
                    lambda row: row.listing.state,
                    letter="S",
                ),
                Column("Open for", _open, 10, lambda row: row.open_ms, "right", letter="O"),
                Column("Timeout", lambda row: duration(row.timeout_ms), 8, None, "right", drop=3),
                Column("Producer", lambda row: str(row.listing.producer_id), 10, None, "right", drop=1),
                Column("Parts", lambda row: count(len(row.partitions)), 5, lambda row: len(row.partitions), "right"),
                Column("Coord", lambda row: str(row.listing.coordinator_id), 5, None, "right", drop=2),
            ],
            key=lambda row: row.listing.transactional_id,
            text=lambda row: f"{row.listing.transactional_id} {row.listing.state} {row.listing.producer_id}",
            title="Transactional ids",
            id="listed",
            sort="Transactional id",
        )
        yield Grid[HangingTransaction](
            [
                Column("Partition", lambda row: clean(str(row.partition)), 16, lambda row: row.partition, flex=True),
                Column("Producer", lambda row: str(row.producer.producer_id), 12, None, "right"),
                Column("Epoch", lambda row: str(row.producer.producer_epoch), 5, None, "right", drop=2),
                Column("Since offset", lambda row: count(row.producer.txn_start_offset), 14, None, "right", drop=1),
                Column("Idle", lambda row: duration(row.idle_ms), 10, lambda row: row.idle_ms, "right", letter="I"),
                Column("Transactional id", lambda row: clean(row.transactional_id or "-"), 18, drop=3),
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
                row for row in rows if not self._only_open or row.listing.state in _STYLES
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
