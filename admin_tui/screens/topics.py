"""Topics: create, configure, add partitions, delete records, clone, delete."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from textual.binding import Binding, BindingType

from admin_tui.screens.view import ListView
from admin_tui.widgets.columns import grid_column
from admin_tui.widgets.grid import Grid
from broker_cy.admin.metadata import TopicInfo
from broker_cy.console.acts.topics import (
    add_partitions_form,
    clone_form,
    create_form,
    delete_records_form,
    plan_add_partitions,
    plan_clone,
    plan_create,
    plan_delete,
    plan_delete_records,
)
from broker_cy.console.columns import topics
from broker_cy.console.rows import TopicRow, is_own_topic, topic_rows


class TopicsView(ListView):
    """All topics."""

    NAME = "topics"
    ABOUT = """Every topic with its partitions, its size on disk, and the rate at which records are written to it (from
    broker-cy only).

`enter` opens the partitions, `m` the records, `e` the settings. `i` shows or hides internal topics."""
    CHANGES = frozenset({"create", "partitions", "clone", "delete_records", "delete"})
    NEEDS_ROW = frozenset({"messages", "settings", "describe", "partitions", "clone", "delete_records", "delete"})
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("m", "messages", "Records", id="topics.messages"),
        Binding("c", "create", "Create", id="topics.create"),
        Binding("e", "settings", "Settings", id="topics.settings"),
        Binding("d", "describe", "Partitions", show=False, id="topics.describe"),
        Binding("a", "partitions", "Grow", id="topics.partitions"),
        Binding("y", "clone", "Clone", id="topics.clone"),
        Binding("x", "delete_records", "Trim", id="topics.delete_records"),
        Binding("ctrl+d", "delete", "Delete", id="topics.delete"),
        Binding("i", "internal", "Internal topics", show=False, id="topics.internal"),
    ]

    def __init__(self) -> None:
        super().__init__()
        self._with_internal = False

    def make_grid(self) -> Grid[Any]:
        return Grid[TopicRow](
            [
                grid_column(topics.TOPIC, 18, flex=True, letter="T"),
                grid_column(topics.PARTITIONS, letter="P"),
                grid_column(topics.REPLICAS, drop=3, letter="L"),
                grid_column(topics.SIZE, letter="S"),
                grid_column(topics.RECORDS, drop=1, letter="R"),
                grid_column(topics.IN, drop=2, letter="I"),
                grid_column(topics.STATE, letter="E"),
            ],
            key=lambda row: row.info.name,
            text=lambda row: row.info.name,
            noun="topic",
            title="Topics",
            can_mark=True,
            sort="Topic",
        )

    def connect(self) -> None:
        self.link(self.session.topics(), self.grid, self._show)
        # The names are shown before sizes and rates are known.
        for source in (self.session.log_dirs(), self.session.samples):
            self.also(source, self._show)

    def _show(self) -> None:
        topics = self.session.topics().value
        if topics is None or not self.is_attached:
            return
        shown = [info for info in topics if self._with_internal or not is_own_topic(info)]
        self.grid.set_rows(topic_rows(shown, self.session.topic_sizes(), list(self.session.samples.items)))

    @property
    def _topic(self) -> TopicInfo:
        row: Any = self.grid.selected
        info: TopicInfo = row.info
        return info

    def on_grid_moved(self, event: Grid.Moved) -> None:
        event.stop()

    def on_grid_selected(self, event: Grid.Selected) -> None:
        event.stop()
        self.console_app.show_view("topic", event.row.info.name)

    def action_describe(self) -> None:
        self.console_app.show_view("topic", self._topic.name)

    def action_messages(self) -> None:
        self.console_app.show_view("messages", self._topic.name)

    def action_settings(self) -> None:
        self.console_app.show_view("topic-settings", self._topic.name)

    def action_internal(self) -> None:
        self._with_internal = not self._with_internal
        self._show()

    def action_create(self) -> None:
        self.act(
            lambda values: plan_create(self.client, self.command, values),
            form=create_form(),
        )

    def action_partitions(self) -> None:
        topic = self._topic
        self.act(
            lambda values: plan_add_partitions(self.client, self.command, topic, values),
            form=add_partitions_form(topic),
        )

    def action_clone(self) -> None:
        topic = self._topic
        self.act(
            lambda values: plan_clone(self.client, self.command, topic.name, values),
            form=clone_form(topic),
        )

    def action_delete_records(self) -> None:
        topic = self._topic
        self.act(
            lambda values: plan_delete_records(self.client, self.command, topic.name, values),
            form=delete_records_form(topic.name, len(topic.partitions)),
        )

    def action_delete(self) -> None:
        names = [row.info.name for row in self.grid.chosen]

        async def plan(values: Mapping[str, Any]) -> Any:
            return await plan_delete(self.client, self.command, names)

        self.act(plan, then=self.grid.marks.clear)
