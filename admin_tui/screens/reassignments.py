"""Replicas that are being moved between brokers: progress, throttle, and cancelling."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from admin_tui.screens.view import View
from admin_tui.widgets.columns import grid_column
from admin_tui.widgets.facts import Facts
from admin_tui.widgets.grid import Grid
from broker_cy.admin.metadata import TopicPartition
from broker_cy.console.acts.moves import plan_cancel
from broker_cy.console.acts.plan import Plan
from broker_cy.console.columns import reassignments
from broker_cy.console.moving import MovingPartition, throttle_text
from broker_cy.reporting.numbers import count, duration, size


class ReassignmentsView(View):
    """Partitions that are being moved."""

    NAME = "reassignments"
    ABOUT = """Every partition that is being reassigned, by any tool: the copied part, the rate, the time left, and the
    throttle. `broker-cy reassign` and `broker-cy brokers drain` start reassignments.

`x` cancels the reassignment of a partition, which keeps its old replicas; `X` cancels all and removes the throttle,
also a throttle that was left behind."""
    CHANGES = frozenset({"cancel", "cancel_all"})
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("x", "cancel", "Cancel", id="reassignments.cancel"),
        Binding("X", "cancel_all", "Cancel all", id="reassignments.cancel_all"),
    ]
    DEFAULT_CSS = "ReassignmentsView Facts { max-height: 6; }"

    def body(self) -> ComposeResult:
        yield Facts("Reassignments", id="facts")
        yield Grid[MovingPartition](
            [
                grid_column(reassignments.PARTITION, flex=True),
                grid_column(reassignments.BEFORE, drop=1),
                grid_column(reassignments.AFTER),
                grid_column(reassignments.COPIED),
                grid_column(reassignments.TOTAL),
                grid_column(reassignments.DONE),
            ],
            key=lambda row: row.partition,
            text=lambda row: str(row.partition),
            title="Partitions",
            id="partitions",
        )

    def connect(self) -> None:
        feed = self.session.moves()
        self.link(feed, self.query_one("#partitions"), self._show)
        self.link(feed, self.query_one("#facts"), lambda: None)
        self.query_one("#partitions").focus()

    def _show(self) -> None:
        moving = self.session.moves().value
        if moving is None:
            return
        rate = moving.rate_bytes_per_s
        facts: list[Any] = [
            ("partitions", count(len(moving.partitions))),
            ("copied", f"{size(moving.copied_bytes)} of {size(moving.total_bytes)}"),
            ("rate", "-" if rate is None else f"{size(rate)}/s"),
            ("time left", "-" if moving.left_s is None else duration(moving.left_s * 1000)),
            ("throttle", throttle_text(moving.throttle) if moving.throttle.is_set else "none"),
        ]
        self.query_one(Facts).set_facts(facts)
        self.query_one("#partitions", Grid).set_rows(moving.partitions)

    def action_cancel(self) -> None:
        row: MovingPartition | None = self.query_one("#partitions", Grid).selected
        if row is not None:
            key = row.partition
            self._cancel(lambda other: other == key, ("--topic", f"{key.topic}:{key.partition}"))

    def action_cancel_all(self) -> None:
        self._cancel(lambda other: True, ())

    def _cancel(self, wanted: Callable[[TopicPartition], bool], words: tuple[str, ...]) -> None:
        async def plan(values: Mapping[str, Any]) -> Plan:
            return await plan_cancel(self.client, self.command, wanted, words)

        self.act(plan)
