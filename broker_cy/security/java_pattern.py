"""Java's regular expressions (java.util.regex.Pattern) as patterns of Python's `re`.

Both languages backtrack, so a pattern that takes long in one takes long in the other: patterns are settings of
operators. Constructs without an equal in `re` are refused, such as intersections of classes and scripts of Unicode.
"""

from __future__ import annotations

import re
from typing import Final

_LINE_ENDS: Final = "\\n\\r\\u0085\\u2028\\u2029"
_HORIZONTAL: Final = " \\t\\xa0\\u1680\\u180e\\u2000-\\u200a\\u202f\\u205f\\u3000"
_VERTICAL: Final = "\\n\\x0b\\f\\r\\u0085\\u2028\\u2029"
_PUNCTUATION: Final = "!-/:-@\\[-`{-~"
# Classes of one letter, as the content of a class.
_SETS: Final = {"d": "0-9", "w": "a-zA-Z0-9_", "s": " \\t\\n\\x0b\\f\\r", "h": _HORIZONTAL, "v": _VERTICAL}
_PROPERTIES: Final = {
    "Lower": "a-z",
    "Upper": "A-Z",
    "ASCII": "\\x00-\\x7f",
    "Alpha": "a-zA-Z",
    "Digit": "0-9",
    "Alnum": "a-zA-Z0-9",
    "Punct": _PUNCTUATION,
    "Graph": "!-~",
    "Print": " -~",
    "Blank": " \\t",
    "Cntrl": "\\x00-\\x1f\\x7f",
    "XDigit": "0-9a-fA-F",
    "Space": " \\t\\n\\x0b\\f\\r",
}
_CHARACTERS: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f", "a": "\a", "e": "\x1b"}
# The end of the text, or the place before a line end that ends it; not within "\\r\\n".
_END: Final = "(?:\\Z|(?=\\r\\n\\Z|[\\r\\u0085\\u2028\\u2029]\\Z)|(?<!\\r)(?=\\n\\Z))"
# The same for each line of the text. An empty last line has no begin.
_LINE_END: Final = "(?:\\Z|(?=[\\r\\u0085\\u2028\\u2029])|(?<!\\r)(?=\\n))"
_LINE_BEGIN: Final = "(?:(?!\\Z)(?:\\A|(?<=[\\n\\u0085\\u2028\\u2029])|(?<=\\r)(?!\\n)))"
# Words have ASCII letters only, as for `\\w` and since Java 19 (JDK-8264160); before, `\\b` knew all letters. Python's
# `\\B` does not match an empty text.
_ASSERTIONS: Final = {"b": "\\b", "B": "(?!\\b)", "A": "\\A", "z": "\\Z", "Z": _END}
_REPETITION: Final = re.compile(r"\{\d+(?:,\d*)?\}", re.ASCII)
_FLAGS: Final = re.compile(r"\(\?([a-zA-Z]*)(?:-([a-zA-Z]+))?([:)])", re.ASCII)
_NAMED: Final = re.compile(r"\(\?<([A-Za-z][A-Za-z0-9]*)>", re.ASCII)
_REFERENCE: Final = re.compile(r"\\k<([A-Za-z][A-Za-z0-9]*)>", re.ASCII)
_OPENINGS: Final = ("(?=", "(?!", "(?<=", "(?<!", "(?>")
_HEXADECIMAL: Final = re.compile(r"\\(?:x([0-9A-Fa-f]{2})|u([0-9A-Fa-f]{4})|x\{([0-9A-Fa-f]{1,6})\})", re.ASCII)
_OCTAL: Final = re.compile(r"\\0([0-3]?[0-7]{1,2})", re.ASCII)
_PROPERTY: Final = re.compile(r"\\([pP])\{(?:Is)?(\w+)\}", re.ASCII)
_KNOWN_FLAGS: Final = frozenset("ims")


class NotTranslatable(ValueError):
    """The pattern is malformed, or `re` has no equal of a part of it; the message gives the reason."""


def compiled(pattern: str) -> re.Pattern[str]:
    """Return the pattern for `re`; `fullmatch` does what Java's `matches` does. Raises NotTranslatable."""
    text = _Translation(pattern).run()
    try:
        return re.compile(text, re.ASCII)
    except (re.error, OverflowError, RecursionError) as error:
        raise NotTranslatable(f"{pattern!r} is not a valid regular expression: {error}") from None


class _Translation:
    """One pass over a pattern. A flag such as `(?i)` applies to the rest of its group, over `|`: each alternative gets
    a group with the flag.
    """

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._at = 0
        self._out: list[str] = []
        # For each open group, the flags `(?i)` that are in force in it, as texts that open groups.
        self._flags: list[list[str]] = [[]]
        self._dot_all = [False]
        self._by_line = [False]
        self._has_line_end = [False]

    def run(self) -> str:
        while self._at < len(self._pattern):
            self._step(self._pattern[self._at])
        self._close_flags()
        return "".join(self._out)

    def _step(self, char: str) -> None:
        if char == "\\":
            self._out.append(self._escape())
        elif char == "[":
            self._out.append(f"[{self._class()}]")
        elif char == "(":
            self._open()
        elif char == ")":
            if len(self._flags) == 1:
                raise self._wrong("a ) closes no group")
            self._close_flags()
            self._flags.pop()
            self._dot_all.pop()
            self._by_line.pop()
            self._take(")")
            if has_line_end := self._has_line_end.pop():
                if self._is_repeated():
                    raise self._wrong("a repeated group with \\R is not supported")
                self._has_line_end[-1] = has_line_end
        elif char == "|":
            flags = self._flags[-1]
            self._out.append(")" * len(flags))
            self._take("|")
            self._out.extend(flags)
        elif char == ".":
            self._at += 1
            self._out.append("[\\s\\S]" if self._dot_all[-1] else f"[^{_LINE_ENDS}]")
        elif char in "^$":
            self._at += 1
            ends = {"^": ("\\A", _LINE_BEGIN), "$": (_END, _LINE_END)}
            self._out.append(ends[char][self._by_line[-1]])
        elif char == "{":
            if (found := _REPETITION.match(self._pattern, self._at)) is None:
                raise self._wrong("a { begins no repetition; write \\{ for the character")
            self._at = found.end()
            self._out.append(found[0])
        else:
            self._take(char)

    def _take(self, text: str) -> None:
        self._at += len(text)
        self._out.append(text)

    def _is_repeated(self) -> bool:
        return self._pattern[self._at : self._at + 1] in ("*", "+", "?", "{")

    def _close_flags(self) -> None:
        self._out.append(")" * len(self._flags[-1]))
        self._flags[-1].clear()

    def _open(self) -> None:
        rest = self._pattern
        dot_all, by_line = self._dot_all[-1], self._by_line[-1]
        if (named := _NAMED.match(rest, self._at)) is not None:
            self._at = named.end()
            self._out.append(f"(?P<{named[1]}>")
        elif (opening := next((each for each in _OPENINGS if rest.startswith(each, self._at)), None)) is not None:
            self._take(opening)
        elif (flags := _FLAGS.match(rest, self._at)) is not None:
            on, off, end = flags.groups()
            if unknown := (set(on) | set(off or "")) - _KNOWN_FLAGS:
                raise self._wrong(f"the flag {min(unknown)} is not supported")
            self._at = flags.end()
            dot_all = ("s" in on or dot_all) and "s" not in (off or "")
            by_line = ("m" in on or by_line) and "m" not in (off or "")
            # `.`, `^` and `$` are translated by their flags already.
            text = f"(?{'i' if 'i' in on else ''}{'-i' if 'i' in (off or '') else ''}:"
            self._out.append(text)
            if end == ")":
                self._flags[-1].append(text)
                self._dot_all[-1], self._by_line[-1] = dot_all, by_line
                return
        elif rest.startswith("(?", self._at):
            raise self._wrong(f"{rest[self._at : self._at + 3]} begins no known group")
        else:
            self._take("(")
        self._flags.append([])
        self._dot_all.append(dot_all)
        self._by_line.append(by_line)
        self._has_line_end.append(False)

    def _escape(self) -> str:
        """Return the translation of an escape outside of a class."""
        pattern, at = self._pattern, self._at
        if pattern.startswith("\\Q", at):
            return re.escape(self._quoted())
        if (reference := _REFERENCE.match(pattern, at)) is not None:
            self._at = reference.end()
            return f"(?P={reference[1]})"
        letter = pattern[at + 1 : at + 2]
        if letter in _ASSERTIONS and letter:
            self._at += 2
            return _ASSERTIONS[letter]
        if letter == "R":
            self._at += 2
            self._has_line_end[-1] = True
            # Repeated, it is one step for Java, which goes back to no `\\r` of a "\\r\\n".
            return f"(?{'>' if self._is_repeated() else ':'}\\r\\n|[{_VERTICAL}])"
        if letter in "123456789" and letter:
            self._at += 2
            # In a group of its own, so that a digit after it is none of its number.
            return f"(?:\\{letter})"
        content, is_negated = self._set_or_character()
        return f"[{'^' if is_negated else ''}{content}]"

    def _quoted(self) -> str:
        """Return the text from `\\Q` to `\\E` or the end."""
        end = self._pattern.find("\\E", self._at)
        text = self._pattern[self._at + 2 :] if end < 0 else self._pattern[self._at + 2 : end]
        self._at = len(self._pattern) if end < 0 else end + 2
        return text

    def _set_or_character(self) -> tuple[str, bool]:
        """Read an escape. Return the content of a class, and whether it has all other characters."""
        pattern, at = self._pattern, self._at
        if (found := _HEXADECIMAL.match(pattern, at)) is not None:
            code = int(found[1] or found[2] or found[3], 16)
            if code > 0x10FFFF:
                raise self._wrong(f"{found[0]} is no character")
            self._at = found.end()
            return _literal(chr(code)), False
        if (found := _OCTAL.match(pattern, at)) is not None:
            self._at = found.end()
            return _literal(chr(int(found[1], 8))), False
        if (found := _PROPERTY.match(pattern, at)) is not None and found[2] in _PROPERTIES:
            self._at = found.end()
            return _PROPERTIES[found[2]], found[1] == "P"
        letter = pattern[at + 1 : at + 2]
        if not letter:
            raise self._wrong("it ends with a backslash")
        self._at += 2
        if letter.lower() in _SETS:
            return _SETS[letter.lower()], letter.isupper()
        if letter in _CHARACTERS:
            return _literal(_CHARACTERS[letter]), False
        if letter.isascii() and letter.isalnum():
            raise self._wrong(f"\\{letter} is not supported")
        return _literal(letter), False

    def _class(self) -> str:
        """Read a class from its `[` to its `]`, and return its content; inner classes are part of it."""
        pattern = self._pattern
        self._at += 1
        parts = []
        if pattern.startswith("^", self._at):
            self._at += 1
            parts.append("^")
        is_first = True
        while not pattern.startswith("]", self._at) or is_first:
            if self._at >= len(pattern):
                raise self._wrong("a [ has no closing ]")
            if pattern.startswith("&&", self._at):
                raise self._wrong("intersections of classes (&&) are not supported")
            parts.append(self._class_part())
            is_first = False
        self._at += 1
        return "".join(parts)

    def _class_part(self) -> str:
        pattern = self._pattern
        char = pattern[self._at]
        if char == "[":
            if pattern.startswith("[^", self._at):
                raise self._wrong("a negated class inside of a class is not supported")
            return self._class()
        if pattern.startswith("\\Q", self._at):
            return "".join(map(_literal, self._quoted()))
        if char == "\\":
            content, is_negated = self._set_or_character()
            if not is_negated:
                return content
            letter = pattern[self._at - 1]
            if letter in "DWS":
                return f"\\{letter}"
            raise self._wrong("a negated class inside of a class is not supported")
        self._at += 1
        # Between two characters it makes a range; elsewhere Java and Python take it as a character.
        return char if char == "-" else _literal(char)

    def _wrong(self, reason: str) -> NotTranslatable:
        return NotTranslatable(f"{self._pattern!r} is not a valid regular expression: {reason}")


def _literal(char: str) -> str:
    return f"\\{char}" if char in "\\]^-[&~|" else char
