"""The subjects of the cluster's schema registry; and what all screens of schemas share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from textual.binding import Binding, BindingType

from admin_tui.screens.view import ListView, View
from admin_tui.widgets.columns import grid_column
from admin_tui.widgets.grid import Grid
from broker_cy.console.acts.plan import Plan
from broker_registry.console import columns
from broker_registry.console.acts import delete_form, plan_delete, plan_register, register_form
from broker_registry.console.session import NOT_CONFIGURED
from broker_registry.console.views import Subject

if TYPE_CHECKING:
    from broker_registry.console.session import SchemaSession


class SchemaScreen(View):
    """A screen about the schema registry, which may not be known: it says so then, and has no acts."""

    CHANGES = frozenset({"register", "delete"})

    @property
    def schemas(self) -> SchemaSession:
        found = self.console_app.schemas
        assert found is not None
        return found

    @property
    def has_registry(self) -> bool:
        return self.console_app.schemas is not None

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action in ("register", "delete") and not self.has_registry:
            return False
        return super().check_action(action, parameters)

    def action_refresh(self) -> None:
        super().action_refresh()
        if self.has_registry:
            self.schemas.refresh()

    def register(self, subject: str, kind: str = "AVRO") -> None:
        """Ask for a schema, try it, show what it would break, and register it."""

        async def plan(values: Mapping[str, Any]) -> Plan:
            return await plan_register(self.schemas, self.client, values)

        self.act(plan, form=register_form(subject, kind, has_files=True), then=self.schemas.refresh)


class SchemasView(ListView, SchemaScreen):
    """All subjects."""

    NAME = "schemas"
    ABOUT = """The subjects of the schema registry, with their newest version. The level is the compatibility level that
applies to the subject, the mode says whether it may be changed. Deleted versions can be restored.

`enter` shows the versions of a subject. `c` registers a schema: it is tried on the newest records of the topic first,
and the plan shows which records and which readers it would break. `ctrl+d` deletes the selected subject."""
    NEEDS_ROW = frozenset({"delete"})
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "open", "Versions", id="schemas.open"),
        Binding("c", "register", "Register", id="schemas.register"),
        Binding("ctrl+d", "delete", "Delete", id="schemas.delete"),
    ]

    def make_grid(self) -> Grid[Any]:
        return Grid[Subject](
            [
                grid_column(columns.SUBJECT, 16, flex=True, letter="S"),
                grid_column(columns.SUBJECT_TYPE, letter="T"),
                grid_column(columns.VERSIONS, letter="V"),
                grid_column(columns.NEWEST, drop=3),
                grid_column(columns.NEWEST_ID, letter="I"),
                grid_column(columns.LEVEL, letter="L"),
                grid_column(columns.MODE, drop=1, letter="M"),
                grid_column(columns.DELETED, drop=2, letter="D"),
            ],
            key=lambda row: row.name,
            text=lambda row: f"{row.name} {row.kind} {row.level or ''}",
            noun="subject",
            title="Subjects",
            sort="Subject",
        )

    def connect(self) -> None:
        if not self.has_registry:
            self.grid.set_notice(NOT_CONFIGURED)
            return
        self.link(self.schemas.subjects(), self.grid, self._show)

    def _show(self) -> None:
        found = self.schemas.subjects().value
        if found is None:
            return
        self.grid.title = f"Subjects ({found.remark})" if found.remark else "Subjects"
        self.grid.set_rows(found.rows)

    @property
    def _selected(self) -> Subject | None:
        found: Subject | None = self.grid.selected
        return found

    def on_grid_selected(self, event: Grid.Selected) -> None:
        event.stop()
        self.action_open()

    def action_open(self) -> None:
        if self._selected is not None:
            self.console_app.show_view("schema", self._selected.name)

    def action_register(self) -> None:
        row = self._selected
        self.register("" if row is None else row.name, "AVRO" if row is None else row.kind)

    def action_delete(self) -> None:
        row = self._selected
        if row is None:
            return
        name = row.name

        async def plan(values: Mapping[str, Any]) -> Plan:
            return await plan_delete(self.schemas, name, None, values)

        self.act(plan, form=delete_form(f"subject {name}"), then=self.schemas.refresh)
