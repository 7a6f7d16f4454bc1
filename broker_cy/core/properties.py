"""Java's .properties files, as java.util.Properties.load reads them."""

from __future__ import annotations

from pathlib import Path

from broker_cy.core.config_def.types import ConfigError

# A settings file is a page of text; a larger file is something else.
FILE_BYTES_MAX = 1 << 20

_BLANKS = " \t\f"
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def read_properties_file(path: str | Path) -> dict[str, str]:
    """Return the names and values of the file; if a name occurs twice, the last one takes effect. Raises
    ConfigError with a one-line message.
    """
    text = _read_text(path)
    try:
        return parse_properties(text)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from error


def lines_of(path: str | Path) -> dict[str, int]:
    """Return the line on which the effective value of each name begins. Raises ConfigError."""
    return {_unescape(line[: _end_of_key(line)], number): number for number, line in _logical_lines(_read_text(path))}


def _read_text(path: str | Path) -> str:
    """Read the file. Raises ConfigError with a one-line message."""
    try:
        with open(path, "rb") as file:
            data = file.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from error
    if len(data) > FILE_BYTES_MAX:
        raise ConfigError(f"{path} is larger than {FILE_BYTES_MAX} bytes, so it is not a settings file")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        # Java's default encoding; every byte is valid in it.
        return data.decode("latin-1")


def parse_properties(text: str) -> dict[str, str]:
    """Parse the text of a file. Raises ConfigError with the line number for an invalid \\u escape."""
    found: dict[str, str] = {}
    for number, line in _logical_lines(text):
        end = _end_of_key(line)
        rest = line[end:].lstrip(_BLANKS)
        if rest[:1] in ("=", ":"):
            rest = rest[1:].lstrip(_BLANKS)
        found[_unescape(line[:end], number)] = _unescape(rest, number)
    return found


def _logical_lines(text: str) -> list[tuple[int, str]]:
    """Yield lines with their continuations joined, without comments and empty lines, with the number of the first
    line.
    """
    lines: list[tuple[int, str]] = []
    pending = ""
    start = 0
    for number, raw in enumerate(text.replace("\r\n", "\n").replace("\r", "\n").split("\n"), 1):
        line = raw.lstrip(_BLANKS)
        if not pending:
            start = number
            if not line or line[0] in "#!":
                continue
        line = pending + line
        backslashes = len(line) - len(line.rstrip("\\"))
        if backslashes % 2:
            pending = line[:-1]
            continue
        pending = ""
        if line:
            lines.append((start, line))
    if pending:
        lines.append((start, pending))
    return lines


def _end_of_key(line: str) -> int:
    """Return the position of the first unescaped blank, '=' or ':'."""
    at = 0
    while at < len(line):
        if line[at] == "\\":
            at += 2
        elif line[at] in _BLANKS + "=:":
            return at
        else:
            at += 1
    return len(line)


def _unescape(text: str, number: int) -> str:
    if "\\" not in text:
        return text
    parts: list[str] = []
    at = 0
    while at < len(text):
        char = text[at]
        at += 1
        if char == "\\" and at < len(text):
            char = text[at]
            at += 1
            if char == "u":
                digits = text[at : at + 4]
                if len(digits) != 4 or any(digit not in "0123456789abcdefABCDEF" for digit in digits):
                    raise ConfigError(f"line {number}: \\u must be followed by four hexadecimal digits, not {digits!r}")
                char = chr(int(digits, 16))
                at += 4
            else:
                char = _ESCAPES.get(char, char)
        parts.append(char)
    return "".join(parts)
