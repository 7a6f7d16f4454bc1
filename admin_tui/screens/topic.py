"""The partitions of a topic: leaders, replicas, offsets, size."""

from __future__ import annotations

from typing import Any, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from admin_tui.screens.view import View
from admin_tui.widgets.columns import grid_column
from admin_tui.widgets.facts import Facts
from admin_tui.widgets.grid import Grid
from broker_cy.console.acts.topics import delete_records_form, plan_delete, plan_delete_records
from broker_cy.console.columns import topics
from broker_cy.console.feed_values import PartitionRow
from broker_cy.reporting.foreign_text import clean
from broker_cy.reporting.numbers import count, size


class TopicView(View):
    """One topic."""

    NAME = "topic"
    ABOUT = """Each partition with its leader, replicas, first and next offset, its size on disk, and its number of
segments (where the broker serves metrics: `brokercy.metrics.listener`).

The span is the number of offsets between the first and the next one; compaction and transactions leave fewer records
than that. `c` counts the records of the marked partitions, or of the selected one, by reading them."""
    CHANGES = frozenset({"delete_records", "delete"})
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter,m", "messages", "Records", id="topic.messages"),
        Binding("e", "settings", "Settings", id="topic.settings"),
        Binding("p", "producers", "Producers", id="topic.producers"),
        Binding("c", "count", "Count", id="topic.count"),
        Binding("x", "delete_records", "Trim", id="topic.delete_records"),
        Binding("ctrl+d", "delete", "Delete", id="topic.delete"),
    ]
    DEFAULT_CSS = "TopicView Facts { max-height: 5; }"

    def __init__(self, topic: str) -> None:
        super().__init__()
        self.topic = topic

    @property
    def path(self) -> str:
        return f"topics > {self.topic}"

    def body(self) -> ComposeResult:
        yield Facts("Topic", id="facts")
        yield Grid[PartitionRow](
            [
                grid_column(topics.PARTITION, letter="P"),
                grid_column(topics.LEADER, letter="L"),
                grid_column(topics.LEADER_EPOCH, drop=6),
                grid_column(topics.REPLICA_IDS, drop=2),
                grid_column(topics.IN_SYNC, drop=1),
                grid_column(topics.LOG_START, letter="S", drop=3),
                grid_column(topics.LOG_END, letter="E"),
                grid_column(topics.OFFSETS, letter="O", drop=4),
                grid_column(topics.PARTITION_SIZE, letter="I"),
                grid_column(topics.SEGMENTS, letter="G", drop=5),
                grid_column(topics.PARTITION_STATE, letter="T"),
                grid_column(topics.DIRECTORY, flex=True, drop=7),
            ],
            key=lambda row: row.partition,
            text=lambda row: f"partition {row.partition} leader {row.leader_id} {topics.PARTITION_STATE.shown(row)}",
            title="Partitions",
            can_mark=True,
            id="partitions",
        )

    def connect(self) -> None:
        self.link(self.session.partitions(self.topic), self.grid, self._show)
        self.link(self.session.topics(), self.query_one(Facts), self._show_facts)
        self.grid.focus()

    def _show(self) -> None:
        rows = self.session.partitions(self.topic).value
        if rows is not None:
            self.grid.set_rows(rows)
            self._show_facts()

    def _show_facts(self) -> None:
        rows = self.session.partitions(self.topic).value or ()
        info = next((each for each in self.session.topics().value or () if each.name == self.topic), None)
        facts: list[Any] = [
            ("name", clean(self.topic)),
            ("partitions", count(len(rows))),
            ("offsets", count(sum(row.span or 0 for row in rows))),
            ("size", size(sum(row.size_bytes or 0 for row in rows))),
        ]
        if info is not None:
            facts += [("replication", str(info.replication_factor)), ("id", str(info.topic_id))]
            if info.is_own:
                facts.append(("internal", "yes"))
        self.query_one(Facts).set_facts(facts)

    def on_grid_selected(self, event: Grid.Selected) -> None:
        event.stop()
        self.action_messages()

    def action_messages(self) -> None:
        row = self.grid.selected
        self.console_app.show_view("messages", self.topic, *([] if row is None else [f"p{row.partition}"]))

    def action_settings(self) -> None:
        self.console_app.show_view("topic-settings", self.topic)

    def action_producers(self) -> None:
        self.console_app.show_view("producers", self.topic)

    def action_count(self) -> None:
        from admin_tui.dialogs.count import CountDialog

        rows = [row for row in self.grid.chosen if row.start is not None and row.end is not None]
        if rows:
            self.app.push_screen(CountDialog(self.client, self.topic, rows))

    def action_delete_records(self) -> None:
        self.act(
            lambda values: plan_delete_records(self.client, self.command, self.topic, values),
            form=delete_records_form(self.topic, max(1, len(self.grid.rows))),
        )

    def action_delete(self) -> None:
        self.act(
            lambda values: plan_delete(self.client, self.command, [self.topic]),
            then=lambda: self.console_app.show_view("topics", keep=False),
        )
