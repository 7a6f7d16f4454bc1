"""Reading a TOML file key by key; an error names the file, the line, the key and the allowed values."""

import difflib
import re
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

_HEADER = re.compile(r"^\s*\[\s*([^\[\]]+?)\s*\]\s*(?:#.*)?$")
_KEY = re.compile(r"^\s*([A-Za-z0-9_.-]+|\"[^\"]*\"|'[^']*')\s*=")
_MISSING = object()
T = TypeVar("T")


class SpecError(Exception):
    """A workload or target file that cannot be used; the text is `file:line: key: why (what is allowed)`."""


class Table:
    """One table of a file: `take` its keys, then `finish`, which refuses the keys that were not taken."""

    def __init__(self, file: str, values: Mapping[str, Any], lines: Mapping[str, int], path: str = "") -> None:
        self.file = file
        self.values = values
        self.lines = lines
        self.path = path
        self.known: list[str] = []

    def error(self, key: str, why: str) -> SpecError:
        """Return an error about `key` of this table, at its line."""
        full = self._full(key)
        line = self.lines.get(full) or self.lines.get(self.path) or 1
        return SpecError(f"{self.file}:{line}: {full}: {why}")

    def take(self, key: str, parse: Callable[[Any], T], default: Any = _MISSING) -> T:
        """Return the value of `key` as parsed by `parse`. Raises SpecError if `parse` raises ValueError or a required
        key is missing.
        """
        self.known.append(key)
        if key not in self.values:
            if default is _MISSING:
                raise self.error(key, "is missing")
            chosen: T = default
            return chosen
        try:
            return parse(self.values[key])
        except ValueError as error:
            raise self.error(key, str(error)) from None

    def table(self, key: str) -> "Table":
        """Return the table below `key`, empty if there is none."""
        self.known.append(key)
        values = self.values.get(key, {})
        if not isinstance(values, dict):
            raise self.error(key, f"{values!r} is not a table")
        return Table(self.file, values, self.lines, self._full(key))

    def finish(self) -> None:
        """Refuse a key that was not taken."""
        for key in self.values:
            if key not in self.known:
                close = difflib.get_close_matches(key, self.known, 1)
                hint = f"; did you mean {close[0]!r}?" if close else ""
                raise self.error(key, f"unknown key{hint} (allowed: {', '.join(sorted(self.known))})")

    def _full(self, key: str) -> str:
        return f"{self.path}.{key}" if self.path else key


def read(path: Path) -> Table:
    """Return the top table of a file. Raises SpecError if it cannot be read or is not TOML."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise SpecError(f"{path}: cannot be read: {error.strerror}") from None
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise SpecError(f"{path}:{line}: not UTF-8: byte 0x{data[error.start]:02x}") from None
    try:
        values = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        reported = re.search(r"at line (\d+)", str(error))
        raise SpecError(f"{path}:{reported.group(1) if reported else 1}: not TOML: {error}") from None
    except RecursionError:
        raise SpecError(f"{path}:1: not a workload or target: nested too deeply") from None
    return Table(str(path), values, line_numbers(text))


def line_numbers(text: str) -> dict[str, int]:
    """Return the line of each table and key, by dotted path. Keys in inline tables have the line of the table's key."""
    found: dict[str, int] = {}
    table = ""
    for number, line in enumerate(text.splitlines(), 1):
        if header := _HEADER.match(line):
            table = header.group(1)
            found.setdefault(table, number)
        elif key := _KEY.match(line):
            name = key.group(1).strip("\"'")
            found.setdefault(f"{table}.{name}" if table else name, number)
    return found
