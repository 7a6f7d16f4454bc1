"""The lines around every screen: title bar, key bar, and the command line."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, ClassVar, cast

from rich.cells import cell_len
from rich.text import Text
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.message import Message
from textual.suggester import Suggester
from textual.widget import Widget
from textual.widgets import Input, Label

if TYPE_CHECKING:
    from textual.screen import Screen

    from admin_tui.console_app import ConsoleApp


# Cells that the name of the cluster keeps in a title that is too long.
NAME_MIN = 12


class TitleBar(Widget):
    """The cluster, the path of the screen, read-only mode, alerts and the state of the connection."""

    DEFAULT_CSS = "TitleBar { height: 1; background: $panel; color: $text; }"

    def __init__(self, path: str) -> None:
        super().__init__()
        self.path = path

    def render(self) -> Text:
        app = cast("ConsoleApp", self.app)
        right = Text()
        if app.is_readonly:
            right.append(" READ-ONLY ", "bold yellow")
        broken = app.open_alerts
        if broken:
            right.append(f" {broken} alert{'s' if broken > 1 else ''} ", "bold red")
        state = app.link_state
        right.append(
            f" {state} ", "green" if state == "connected" else "yellow" if state == "connecting" else "bold red"
        )
        room = self.size.width - cell_len(right.plain)
        # The name of a cluster may be the addresses of all its brokers: it is shortened before the screen's.
        path = f"  {self.path}"
        left = Text()
        left.append(f" {app.session.entry.name}", "bold")
        left.truncate(max(NAME_MIN, room - 1 - cell_len(path)), overflow="ellipsis")
        left.append(path)
        left.truncate(max(0, room - 1), overflow="ellipsis")
        left.append(" " * max(0, room - cell_len(left.plain)))
        return left + right


class KeyBar(Widget):
    """The keys of the screen; those that are refused in read-only mode are grey."""

    DEFAULT_CSS = "KeyBar { height: 1; dock: bottom; background: $panel; color: $text; }"

    def on_mount(self) -> None:
        self.screen.bindings_updated_signal.subscribe(self, self._changed)

    def _changed(self, screen: Screen[object]) -> None:
        self.refresh()

    def render(self) -> Text:
        """The screen's own keys first, then those of every screen; help is always shown."""
        found = self._shown()
        own = [piece for name, piece in found if not name.startswith("view.")]
        common = [piece for name, piece in found if name.startswith("view.") and name != "view.help"]
        end = next((piece for name, piece in found if name == "view.help"), Text())
        text = Text()
        for piece in own + common:
            if cell_len(text.plain) + cell_len(piece.plain) + cell_len(end.plain) <= self.size.width:
                text.append_text(piece)
        return text.append_text(end)

    def _shown(self) -> list[tuple[str, Text]]:
        found = []
        seen = set()
        for active in self.screen.active_bindings.values():
            binding = active.binding
            if not binding.show or (binding.action, binding.description) in seen:
                continue
            seen.add((binding.action, binding.description))
            piece = Text()
            piece.append(f" {self.app.get_key_display(binding)}", "bold cyan" if active.enabled else "bright_black")
            piece.append(f" {binding.description}", "" if active.enabled else "bright_black")
            found.append((binding.id or "", piece))
        return found


class _Names(Suggester):
    """Completes the last word of a command."""

    def __init__(self, bar: CommandBar) -> None:
        super().__init__(use_cache=False, case_sensitive=True)
        self._bar = bar

    async def get_suggestion(self, value: str) -> str | None:
        if not value:
            return None
        for candidate in self._bar.candidates(value):
            if candidate.startswith(value) and candidate != value:
                return candidate
        return None


class CommandBar(Horizontal):
    """The line in which a command or a filter is typed; hidden otherwise.

    Its widgets are created when it is first opened: most screens never open it, and they would be a fifth of the time
    that a screen takes to open.
    """

    DEFAULT_CSS = """
    CommandBar { height: 1; dock: bottom; display: none; background: $surface; margin-bottom: 1; }
    CommandBar.-open { display: block; }
    CommandBar > Label { width: auto; color: $text-accent; text-style: bold; }
    CommandBar > Input { width: 1fr; }
    """

    class Entered(Message):
        """A command or a filter was typed; a filter is also posted after each key."""

        def __init__(self, mode: str, text: str, is_done: bool) -> None:
            super().__init__()
            self.mode = mode
            self.text = text
            self.is_done = is_done

    class Left(Message):
        """The line was closed with esc; a filter is removed."""

        def __init__(self, mode: str) -> None:
            super().__init__()
            self.mode = mode

    class _Line(Input):
        BINDINGS: ClassVar[list[BindingType]] = [
            Binding("escape", "leave", "Cancel", id="command.leave"),
            Binding("up", "recall(-1)", "Previous", show=False, id="command.before"),
            Binding("down", "recall(1)", "Next", show=False, id="command.after"),
            Binding("tab", "complete", "Complete", show=False, id="command.complete"),
        ]

        def _bar(self) -> CommandBar:
            return cast("CommandBar", self.parent)

        def action_leave(self) -> None:
            self._bar().leave()

        def action_recall(self, step: int) -> None:
            self._bar().recall(step)

        def action_complete(self) -> None:
            self.action_cursor_right()

    def __init__(self, names: Iterable[str]) -> None:
        super().__init__()
        self._names = sorted(names)
        self.mode = ":"
        self._recalled = 0
        self._before: Widget | None = None

    @property
    def line(self) -> Input:
        return self.query_one(Input)

    @property
    def is_open(self) -> bool:
        return self.has_class("-open")

    async def open(self, mode: str, text: str = "") -> None:
        """Show the line and focus it. `mode` is : or /."""
        if not self.children:
            await self.mount(Label(), self._Line(compact=True, suggester=_Names(self)))
        self.mode = mode
        self._before = self.screen.focused
        self.query_one(Label).update(mode)
        self.add_class("-open")
        with self.prevent(Input.Changed):
            self.line.value = text
        self.line.cursor_position = len(text)
        self._recalled = 0
        self.line.focus()

    def close(self) -> None:
        """Hide the line and return the focus."""
        self.remove_class("-open")
        if self._before is not None and self._before.is_attached:
            self._before.focus()

    def leave(self) -> None:
        self.close()
        self.post_message(self.Left(self.mode))

    def candidates(self, value: str) -> list[str]:
        if self.mode != ":":
            return []
        return cast("ConsoleApp", self.app).complete(value, self._names)

    def recall(self, step: int) -> None:
        """Recall a command that was typed before."""
        typed = cast("ConsoleApp", self.app).typed
        if self.mode != ":" or not typed:
            return
        self._recalled = max(-len(typed), min(0, self._recalled + step))
        self.line.value = typed[self._recalled] if self._recalled else ""
        self.line.cursor_position = len(self.line.value)

    def on_input_changed(self, event: Input.Changed) -> None:
        event.stop()
        if self.mode == "/" and self.is_open:
            self.post_message(self.Entered("/", event.value, False))

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self.close()
        self.post_message(self.Entered(self.mode, event.value, True))
