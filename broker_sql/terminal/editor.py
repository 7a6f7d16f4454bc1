"""The editor: statements over several lines, with highlighting, completion and history."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

from prompt_toolkit import PromptSession
from prompt_toolkit.completion import CompleteEvent, Completer, Completion, ThreadedCompleter
from prompt_toolkit.document import Document
from prompt_toolkit.filters import completion_is_selected, has_completions
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.input import Input
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.lexers import Lexer
from prompt_toolkit.output import Output
from prompt_toolkit.styles import Style

from broker_sql.dialect import split
from broker_sql.terminal.completion import Names, complete
from broker_sql.terminal.highlight import styled

PROMPT: Final = "sql> "
STYLE: Final = Style.from_dict(
    {
        "keyword": "bold ansicyan",
        "function": "ansimagenta",
        "name": "ansigreen",
        "string": "ansiyellow",
        "number": "ansiblue",
        "comment": "italic ansibrightblack",
        "wrong": "ansired underline",
    }
)
# These words are not statements, and need no semicolon.
COMMANDS: Final = ("exit", "quit", "help", "output table", "output json")


def is_whole(text: str) -> bool:
    """Tell whether Enter runs the text: a semicolon ends it, it is a command of the terminal, or it is empty."""
    parts = list(split(text))
    return not parts or parts[-1].ended or command_of(text) is not None


def command_of(text: str) -> str | None:
    """Return the command of the terminal that a text is."""
    words = " ".join(text.strip().rstrip(";").lower().split())
    return words if words in COMMANDS else None


def history_path() -> Path:
    """Return the file of the history, by XDG_STATE_HOME."""
    state = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    return Path(state) / "broker-cy" / "sql_history"


class Editor:
    """Reads texts of one or more statements from a terminal."""

    def __init__(
        self,
        names: Names,
        history: Path | None = None,
        input_: Input | None = None,
        output: Output | None = None,
    ) -> None:
        self._session: PromptSession[str] = PromptSession(
            lexer=_Highlight(),
            completer=ThreadedCompleter(_Completion(names)),
            complete_while_typing=True,
            history=_history(history),
            key_bindings=_keys(),
            multiline=True,
            prompt_continuation=lambda width, number, wrapped: " " * width,
            style=STYLE,
            input=input_,
            output=output,
        )

    def read(self) -> str:
        """Return the next text. Raises EOFError at the end of the input, and KeyboardInterrupt for Ctrl-C."""
        return self._session.prompt(PROMPT)


def _history(path: Path | None) -> History:
    """Return the history of a file that only its owner can read: statements may hold secrets."""
    if path is None:
        return InMemoryHistory()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        os.close(os.open(path, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600))
    except OSError:  # no home, or no right: the session has a history of its own
        return InMemoryHistory()
    return FileHistory(str(path))


class _Highlight(Lexer):
    def lex_document(self, document: Document) -> Callable[[int], StyleAndTextTuples]:
        lines: list[StyleAndTextTuples] = [[]]
        for style, text in styled(document.text):
            for number, line in enumerate(text.split("\n")):
                if number:
                    lines.append([])
                lines[-1].append((f"class:{style}" if style else "", line))
        return lambda number: lines[number] if number < len(lines) else []


class _Completion(Completer):
    def __init__(self, names: Names) -> None:
        self._names = names

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        if not document.text.strip() and not complete_event.completion_requested:
            return
        found, length = complete(document.text_before_cursor, document.text_after_cursor, self._names)
        if not length and not complete_event.completion_requested:
            return  # a menu at each space would hide the text
        for each in found:
            yield Completion(each.text, start_position=-length, display_meta=each.about)


def _keys() -> KeyBindings:
    keys = KeyBindings()

    @keys.add("enter", filter=~(has_completions & completion_is_selected))
    def _enter(event: KeyPressEvent) -> None:
        """Run whole texts; write a line otherwise."""
        buffer = event.current_buffer
        if is_whole(buffer.text):
            buffer.validate_and_handle()
        else:
            buffer.newline(copy_margin=True)

    @keys.add("enter", filter=has_completions & completion_is_selected)
    def _take(event: KeyPressEvent) -> None:
        """Take the completion that is chosen."""
        with contextlib.suppress(AttributeError):
            event.current_buffer.complete_state = None

    @keys.add("c-d")
    def _end(event: KeyPressEvent) -> None:
        """End the session, if nothing is written."""
        if not event.current_buffer.text:
            event.app.exit(exception=EOFError)

    return keys
