"""Help: the key bindings of a screen with the ids to rebind them, and the commands."""

from __future__ import annotations

from typing import Any, ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.screen import ModalScreen, Screen
from textual.widgets import Markdown, Static

from broker_cy.reporting.foreign_text import clean_lines


class HelpDialog(ModalScreen[None]):
    """Help for a screen: what it shows, its keys, and the commands."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,question_mark,f1", "close", "Close", id="help.close"),
        Binding("j", "down", "Down", show=False, id="help.down"),
        Binding("k", "up", "Up", show=False, id="help.up"),
    ]
    DEFAULT_CSS = """
    HelpDialog { align: center middle; }
    HelpDialog > VerticalScroll {
        width: 90%; max-width: 100; height: 90%; border: round $primary; background: $surface; padding: 0 1;
    }
    HelpDialog Static { height: auto; }
    """

    def __init__(self, title: str, about: str, shown: Screen[Any] | None, commands: list[tuple[str, str]]) -> None:
        super().__init__()
        self._title = title
        self._about = about
        self._keys = [] if shown is None else _keys_of(shown)
        self._commands = commands

    def compose(self) -> ComposeResult:
        with VerticalScroll() as box:
            box.border_title = Text(self._title)
            box.border_subtitle = Text("esc closes")
            if self._about:
                yield Markdown(self._about)
            text = Text()
            if self._keys:
                text.append("Keys (with the ids to rebind them)\n", "bold")
                # As narrow as possible: an id that is wrapped at 80 columns cannot be copied.
                wide = max(len(description) for _, description, _, _ in self._keys) + 2
                for key, description, name, is_enabled in self._keys:
                    text.append(f"  {key:<14}", "bold cyan" if is_enabled else "bright_black")
                    text.append(f"{description:<{wide}}", "" if is_enabled else "bright_black")
                    text.append(f"{name}\n", "bright_black")
            if self._commands:
                text.append("\nCommands\n", "bold")
                for name, what in self._commands:
                    text.append(f"  :{name:<24}", "bold cyan")
                    text.append(f"{what}\n")
            yield Static(text)

    def action_close(self) -> None:
        self.dismiss(None)

    def action_down(self) -> None:
        self.query_one(VerticalScroll).scroll_down()

    def action_up(self) -> None:
        self.query_one(VerticalScroll).scroll_up()


def _keys_of(shown: Screen[Any]) -> list[tuple[str, str, str, bool]]:
    """Return key, description, id, and whether it is enabled; the keys of one action are combined."""
    found: dict[tuple[str, str], list[str]] = {}
    enabled: dict[tuple[str, str], tuple[str, bool]] = {}
    for key, active in shown.active_bindings.items():
        binding = active.binding
        if not binding.description or binding.system or not binding.id:
            continue
        name = (binding.description, binding.action)
        found.setdefault(name, []).append(shown.app.get_key_display(binding) if binding.key == key else key)
        enabled[name] = (binding.id, active.enabled)
    return [("/".join(dict.fromkeys(keys)), clean_lines(name[0]), *enabled[name]) for name, keys in found.items()]
