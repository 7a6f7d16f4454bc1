"""One subject of the schema registry: its versions, their texts and references, and the differences of two."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, ScrollableContainer
from textual.widgets import Static

from admin_tui.screens.schemas import SchemaScreen
from admin_tui.tones import STYLES
from admin_tui.widgets.columns import grid_column
from admin_tui.widgets.facts import Facts
from admin_tui.widgets.grid import Grid
from broker_cy.console.acts.plan import Plan
from broker_cy.console.feeds import Feed
from broker_cy.reporting.foreign_text import clean
from broker_cy.reporting.tone import Tone
from broker_registry.console import columns
from broker_registry.console.acts import delete_form, plan_delete
from broker_registry.console.session import NOT_CONFIGURED
from broker_registry.console.views import Comparison, VersionRow, VersionText

LINES_MAX = 5_000
"""Lines of a text that are shown."""
_DIFF_TONES = {"+": Tone.GOOD, "-": Tone.BAD, "@": Tone.NOTED}


class SchemaView(SchemaScreen):
    """The versions of a subject."""

    NAME = "schema"
    ABOUT = """The versions of a subject, and the text of the selected one. Above are the schemas that it refers to, and
those that refer to it.

`v` shows differences instead: those of the two marked versions, or of the selected one and the one before it. Above
the lines are the differences that keep one version from reading data of the other, and whether the level allows them.
`c` registers a schema after it was tried on records, `ctrl+d` deletes the marked versions, or the selected one."""
    NEEDS_ROW = frozenset({"delete", "differences"})
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("v", "differences", "Text or differences", id="schema.differences"),
        Binding("c", "register", "Register", id="schema.register"),
        Binding("ctrl+d", "delete", "Delete", id="schema.delete"),
    ]
    DEFAULT_CSS = """
    SchemaView Facts { max-height: 4; }
    SchemaView Horizontal { height: 1fr; }
    SchemaView #versions { width: 46; height: 1fr; }
    SchemaView #scroll { width: 1fr; height: 1fr; padding: 0 1; }
    SchemaView #scroll { border: round $panel-lighten-2; border-title-color: $text-accent; }
    SchemaView #scroll:focus { border: round $primary; }
    SchemaView #text { height: auto; width: auto; }
    SchemaView.-narrow Horizontal { layout: vertical; }
    SchemaView.-narrow #versions { width: 1fr; height: 8; }
    """
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (100, "-wide")]  # noqa: RUF012 - as Textual declares it

    def __init__(self, subject: str) -> None:
        super().__init__()
        self.subject = subject
        self._compares = False
        # The feed of what the text shows; None before a version is selected.
        self._shown: Feed[Any] | None = None

    @property
    def path(self) -> str:
        return f"schemas > {self.subject}"

    def body(self) -> ComposeResult:
        yield Facts("Subject", id="facts")
        with Horizontal():
            yield Grid[VersionRow](
                [
                    grid_column(columns.VERSION, letter="V"),
                    grid_column(columns.ID, letter="I"),
                    grid_column(columns.TYPE, drop=3),
                    grid_column(columns.REFERENCES, drop=2),
                    grid_column(columns.SIZE, drop=1),
                    grid_column(columns.STATE, flex=True),
                ],
                key=lambda row: row.version,
                text=lambda row: f"version {row.version} id {row.id} {row.guid or ''}",
                noun="version",
                title="Versions",
                can_mark=True,
                id="versions",
            )
            with ScrollableContainer(id="scroll"):
                yield Static(id="text")

    def connect(self) -> None:
        if not self.has_registry:
            self.grid.set_notice(NOT_CONFIGURED)
            self.query_one(Facts).set_notice(NOT_CONFIGURED)
            return
        self.link(self.schemas.versions(self.subject), self.grid, self._show)
        self.also(self.schemas.versions(self.subject), self._show_facts)
        self.grid.focus()

    def _show(self) -> None:
        found = self.schemas.versions(self.subject).value
        if found is not None:
            self.grid.set_rows(found.rows)
            self._follow()

    def _show_facts(self) -> None:
        found = self.schemas.versions(self.subject).value
        if found is None:
            return
        facts: list[Any] = [
            ("subject", clean(self.subject)),
            ("level", found.level or "unknown"),
            ("mode", found.mode or "unknown"),
            ("versions", str(len(found.undeleted))),
        ]
        shown = None if self._shown is None else self._shown.value
        if isinstance(shown, VersionText):
            facts += [
                ("refers to", ", ".join(f"{each.subject}:{each.version}" for each in shown.references) or "none"),
                ("referred to by", ", ".join(map(str, shown.referrers)) or "none"),
            ]
        self.query_one(Facts).set_facts([(name, clean(value)) for name, value in facts])

    # ------------------------------------------------------------------------------------------------ the text

    def on_grid_moved(self, event: Grid.Moved) -> None:
        event.stop()
        self._follow()

    def _pair(self) -> tuple[int, int] | None:
        """Return the versions that are compared: the two marked ones, else the selected one and the one before it."""
        chosen = sorted(row.version for row in self.grid.chosen)
        if len(chosen) == 2:
            return chosen[0], chosen[1]
        selected: VersionRow | None = self.grid.selected
        if selected is None:
            return None
        earlier = [row.version for row in self.grid.rows if row.version < selected.version]
        return (max(earlier), selected.version) if earlier else None

    def _follow(self) -> None:
        """Watch what is to be shown now, and show it."""
        selected: VersionRow | None = self.grid.selected
        wanted: Feed[Any] | None = None
        if self._compares:
            pair = self._pair()
            wanted = None if pair is None else self.schemas.comparison(self.subject, *pair)
        elif selected is not None:
            wanted = self.schemas.version(self.subject, selected.version)
        if wanted is not self._shown:
            self._leave()
            self._shown = wanted
            if wanted is not None:
                wanted.subscribe(self._show_text)
        self._show_text()

    def _leave(self) -> None:
        if self._shown is not None:
            self._shown.unsubscribe(self._show_text)
            self._shown = None

    def on_screen_suspend(self) -> None:
        super().on_screen_suspend()
        self._leave()

    def on_screen_resume(self) -> None:
        super().on_screen_resume()
        if self.has_registry and self.grid.rows:
            self._follow()

    def on_unmount(self) -> None:
        super().on_unmount()
        self._leave()

    def _show_text(self) -> None:
        if not self.is_attached:
            return
        text, scroll = self.query_one("#text", Static), self.query_one("#scroll")
        value = None if self._shown is None else self._shown.value
        if self._shown is None:
            text.update("One version has no differences." if self._compares and self.grid.rows else "")
        elif value is None:
            text.update(Text(clean(self._shown.error or "reading ...")))
        elif isinstance(value, Comparison):
            scroll.border_title = f"Version {value.old} to {value.new}"
            text.update(_compared(value))
        else:
            scroll.border_title = f"Version {value.version.version}, id {value.version.id}"
            text.update(_lines(value.lines, lambda line: ""))
        self._show_facts()

    # ------------------------------------------------------------------------------------------------ acts

    def action_differences(self) -> None:
        self._compares = not self._compares
        self._follow()
        self.query_one("#scroll").scroll_home(animate=False)

    def action_register(self) -> None:
        rows = list(self.grid.rows)
        self.register(self.subject, rows[0].kind if rows else "AVRO")

    def action_delete(self) -> None:
        versions = [row.version for row in self.grid.chosen]
        if not versions:
            return

        async def plan(values: Mapping[str, Any]) -> Plan:
            return await plan_delete(self.schemas, self.subject, versions, values)

        self.act(plan, form=delete_form(f"versions of {self.subject}"), then=self.schemas.refresh)


def _compared(found: Comparison) -> Text:
    text = Text(no_wrap=True)
    if found.breaking:
        for each in found.breaking:
            tone = STYLES[Tone.BAD if each.is_refused else Tone.WARN]
            cells = [column.shown(each) for column in columns.BREAKING]
            text.append(clean("  ".join(cells)) + "\n", tone)
    else:
        text.append("Each version reads the data of the other.\n", STYLES[Tone.GOOD])
    text.append(f"The level is {found.level.value}.\n\n", STYLES[Tone.MUTED])
    text.append_text(_lines(found.lines, lambda line: STYLES[_DIFF_TONES.get(line[:1], Tone.PLAIN)]))
    return text


def _lines(lines: tuple[str, ...], style: Callable[[str], str]) -> Text:
    text = Text(no_wrap=True)
    for line in lines[:LINES_MAX]:
        text.append(clean(line) + "\n", style(line))
    if len(lines) > LINES_MAX:
        text.append(f"... and {len(lines) - LINES_MAX:,} more lines", STYLES[Tone.MUTED])
    return text
