"""A form: each value is checked as it is typed, and errors are shown below the field."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Button, Input, Label, Static, TextArea

from broker_cy.console.fields import Field, Form
from broker_cy.reporting.foreign_text import clean


class _Entry(Input):
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "step(-1)", "Previous", show=False, id="form.before"),
        Binding("down", "step(1)", "Next", show=False, id="form.next"),
    ]

    def __init__(self, field: Field) -> None:
        super().__init__(
            field.value, placeholder=field.hint, compact=True, password=field.is_secret, id=f"field-{field.name}"
        )
        self.field = field

    def action_step(self, step: int) -> None:
        choices = self.field.choices
        if not choices:
            self.screen.focus_next() if step > 0 else self.screen.focus_previous()
            return
        at = choices.index(self.value) if self.value in choices else -1
        self.value = choices[(at + step) % len(choices)]


class _LongEntry(TextArea):
    """Several lines: enter starts a new one, and tab leaves the field."""

    def __init__(self, field: Field) -> None:
        super().__init__(
            field.value,
            placeholder=field.hint,
            compact=True,
            soft_wrap=False,
            tab_behavior="focus",
            id=f"field-{field.name}",
        )
        self.field = field

    @property
    def value(self) -> str:
        return self.text


class FormDialog(ModalScreen[dict[str, Any] | None]):
    """Dismissed with the values by field name once all are valid, or None if it was cancelled."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "cancel", "Cancel", id="form.cancel"),
        Binding("ctrl+s", "submit", "Continue", id="form.submit"),
    ]
    DEFAULT_CSS = """
    FormDialog { align: center middle; }
    FormDialog > Vertical {
        width: 90%; max-width: 100; height: auto; max-height: 95%; border: round $primary; background: $surface;
        padding: 0 1;
    }
    FormDialog VerticalScroll { height: auto; max-height: 16; }
    FormDialog .row { height: 1; }
    FormDialog .-long { height: 9; }
    FormDialog TextArea { width: 1fr; height: 9; background: $background; }
    FormDialog TextArea:focus { background: $boost; }
    FormDialog Label { width: 22; color: $text-accent; }
    FormDialog Input { width: 1fr; background: $background; }
    FormDialog Input:focus { background: $boost; }
    FormDialog .error { color: ansi_red; height: auto; padding-left: 22; display: none; }
    FormDialog .error.-shown { display: block; }
    FormDialog #refused { color: ansi_red; height: auto; }
    FormDialog #note { color: $text-muted; height: auto; }
    FormDialog #buttons { height: auto; align-horizontal: right; }
    FormDialog Button { margin-left: 2; }
    FormDialog Button:focus { text-style: bold reverse; }
    """

    def __init__(self, form: Form) -> None:
        super().__init__()
        self.form = form
        self._refused = ""
        # The texts of the form when it was submitted, and the field that had the cursor.
        self._typed: dict[str, str] = {}
        self._place = ""

    def again(self, refused: str) -> FormDialog:
        """Return the same form with the texts that were typed, and the reason why they were refused."""
        fields = [replace(field, value=self._typed.get(field.name, field.value)) for field in self.form.fields]
        dialog = FormDialog(replace(self.form, fields=fields))
        dialog._refused = refused
        dialog._place = self._place
        return dialog

    def compose(self) -> ComposeResult:
        with Vertical() as box:
            box.border_title = Text(clean(self.form.title))
            if self.form.note:
                yield Static(Text(clean(self.form.note)), id="note")
            with VerticalScroll(can_focus=False):
                for field in self.form.fields:
                    with Horizontal(classes="-long" if field.is_long else "row"):
                        yield Label(field.label)
                        yield _LongEntry(field) if field.is_long else _Entry(field)
                    yield Static("", classes="error", id=f"error-{field.name}")
            if self._refused:
                yield Static(Text(clean(self._refused)), id="refused")
            with Horizontal(id="buttons"):
                yield Button("Cancel", id="cancel", compact=True)
                yield Button(self.form.verb, id="go", variant="primary", compact=True)

    def on_mount(self) -> None:
        entries = self._entries
        first = next((entry for entry in entries if not entry.value), entries[0] if entries else None)
        first = next((entry for entry in entries if entry.field.name == self._place), first)
        if first is not None:
            first.focus()

    def on_input_changed(self, event: Input.Changed) -> None:
        entry = event.input
        if isinstance(entry, _Entry):
            self._show(entry.field, entry.field.problem(entry.value))

    def on_text_area_changed(self, event: TextArea.Changed) -> None:
        entry = event.text_area
        if isinstance(entry, _LongEntry):
            self._show(entry.field, entry.field.problem(entry.value))

    def on_input_submitted(self, event: Input.Submitted) -> None:
        self.action_submit()

    def on_button_pressed(self, event: Button.Pressed) -> None:
        event.stop()
        if event.button.id == "go":
            self.action_submit()
        else:
            self.dismiss(None)

    def action_cancel(self) -> None:
        self.dismiss(None)

    @property
    def _entries(self) -> list[_Entry | _LongEntry]:
        return [each for each in self.query("*") if isinstance(each, _Entry | _LongEntry)]

    def _show(self, field: Field, problem: str) -> None:
        line = self.query_one(f"#error-{field.name}", Static)
        line.update(Text(clean(problem)))
        line.set_class(bool(problem), "-shown")

    def action_submit(self) -> None:
        entries = self._entries
        self._typed = {entry.field.name: entry.value for entry in entries}
        self._place = next((entry.field.name for entry in entries if entry.has_focus), "")
        checked = self.form.checked(self._typed)
        for entry in entries:
            self._show(entry.field, checked.problems.get(entry.field.name, ""))
        wrong = next((entry for entry in entries if entry.field.name in checked.problems), None)
        if wrong is not None:
            wrong.focus()
        else:
            self.dismiss(dict(checked.values))
