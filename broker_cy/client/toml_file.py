"""The reader of all our TOML files, key by key; an error names the file, the line, the key and the allowed values.

The files are the cluster file, alert rules, settings of the consoles, workloads, targets, scenarios and the plan of
measurements.
"""

import difflib
import re
import tomllib
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any, TypeVar

from broker_cy.client.errors import ClientError, Failure

_HEADER = re.compile(r"^\s*(\[\[?)\s*([^\[\]]+?)\s*\]\]?\s*(?:#.*)?$")
_KEY = re.compile(r"^\s*([A-Za-z0-9_.-]+|\"[^\"]*\"|'[^']*')\s*=")
_QUOTED = re.compile(r"\"([^\"]*)\"|'([^']*)'")
# The path of a key at the beginning of an error.
_PATH = re.compile(r"[^\s:=]+")
_MISSING = object()
T = TypeVar("T")


class SpecError(ClientError):
    """A file that cannot be used; the text is `file:line: key: why (allowed values)`, or `--option: why` if the value
    came from the command line.
    """

    def __init__(self, reason: str, *, what: str = "") -> None:
        super().__init__(Failure.INVALID, reason, what=what)


class Table:
    """One table of a file: `take` its keys, then `finish`, which rejects the keys that were not taken.

    `options` names the option of the command line for each path whose value came from there.
    """

    def __init__(
        self,
        file: str,
        values: Mapping[str, Any],
        lines: Mapping[str, int],
        path: str = "",
        options: Mapping[str, str] | None = None,
    ) -> None:
        self.file = file
        self.values = values
        self.lines = lines
        self.path = path
        self.options = options or {}
        self.known: list[str] = []

    def error(self, key: str, why: str) -> SpecError:
        """Return an error about `key` of this table, at its line, or that of the nearest table around it."""
        full = self._full(key)
        if option := self.options.get(full):
            return SpecError(why, what=option)
        return self.at(full, f"{full}: {why}" if full else why)

    def at(self, path: str, reason: str) -> SpecError:
        """Return an error whose reason names the key; `path` is the whole path of the key in the file."""
        while path and path not in self.lines:
            path = path[: max(path.rfind("."), path.rfind("["), 0)]
        return SpecError(reason, what=f"{self.file}:{self.lines.get(path, 1)}")

    def refuse(self, reason: str) -> SpecError:
        """Return an error whose reason begins with the whole path of the key, at its line."""
        found = _PATH.match(reason)
        return self.at(found[0].strip("'") if found is not None else "", reason)

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
        return self._below(values, self._full(key))

    def tables(self, key: str) -> list["Table"]:
        """Return the tables of the array `key`, none if it is missing."""
        self.known.append(key)
        values = self.values.get(key, [])
        if not isinstance(values, list) or not all(isinstance(each, dict) for each in values):
            raise self.error(key, f"{values!r} is not an array of tables: each begins with [[{self._full(key)}]]")
        return [self._below(each, f"{self._full(key)}[{at}]") for at, each in enumerate(values)]

    def _below(self, values: Mapping[str, Any], path: str) -> "Table":
        return Table(self.file, values, self.lines, path, self.options)

    def finish(self) -> None:
        """Reject a key that was not taken."""
        for key in self.values:
            if key not in self.known:
                raise self.error(key, unknown_key(key, self.known))

    def _full(self, key: str) -> str:
        return f"{self.path}.{key}" if self.path and key else self.path or key


def unknown_key(key: str, known: Collection[str]) -> str:
    """Return why a key is refused, with the nearest known one."""
    close = difflib.get_close_matches(key, known, 1)
    hint = f"; did you mean {close[0]!r}?" if close else ""
    return f"unknown key{hint} (allowed: {', '.join(sorted(known))})"


def read(path: Path) -> Table:
    """Return the top table of a file. Raises SpecError if it cannot be read or is not TOML."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise SpecError(f"cannot be read: {error.strerror}", what=str(path)) from None
    return parse(path, data)


def parse(path: Path, data: bytes) -> Table:
    """Return the top table of a file with this content. Raises SpecError if it is not TOML."""
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise SpecError(f"not UTF-8: byte 0x{data[error.start]:02x}", what=f"{path}:{line}") from None
    try:
        values = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        reported = re.search(r"at line (\d+)", str(error))
        raise SpecError(f"not TOML: {error}", what=f"{path}:{reported[1] if reported else 1}") from None
    except RecursionError:
        raise SpecError("nested too deeply", what=f"{path}:1") from None
    return Table(str(path), values, line_numbers(text))


def line_numbers(text: str) -> dict[str, int]:
    """Return the line of each table and key, by dotted path. Keys in inline tables have the line of the table's key.

    The tables of an array are `array[0]`, `array[1]`, ...
    """
    found: dict[str, int] = {}
    sizes: dict[str, int] = {}  # of the arrays of tables so far
    table = ""
    for number, line in enumerate(text.splitlines(), 1):
        if header := _HEADER.match(line):
            parents, _, last = _QUOTED.sub(r"\1\2", header.group(2)).rpartition(".")
            table = f"{_within(parents, sizes)}.{last}" if parents else last
            if header.group(1) == "[[":
                sizes[table] = sizes.get(table, 0) + 1
                found.setdefault(table, number)
                table = f"{table}[{sizes[table] - 1}]"
            found.setdefault(table, number)
        elif key := _KEY.match(line):
            name = key.group(1).strip("\"'")
            found.setdefault(f"{table}.{name}" if table else name, number)
    return found


def _within(path: str, sizes: Mapping[str, int]) -> str:
    """Return a path of headers with the index of the last table of each array in it."""
    full = ""
    for part in path.split("."):
        full = f"{full}.{part}" if full else part
        if full in sizes:
            full = f"{full}[{sizes[full] - 1}]"
    return full
