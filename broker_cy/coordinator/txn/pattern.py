"""Regular expressions that somebody else wrote, matched in a time that their author cannot make long.

The syntax is RE2's, as in Kafka, of which this knows: literals, `.`, classes, `\\d \\w \\s` and their complements,
POSIX classes, `\\p` with a general category, groups, alternatives, repetition (at most 1,000 times),
`^ $ \\A \\z \\b \\B`, `\\Q..\\E`, and the flags `i` and `s`. A pattern must fit the whole text. Python's own `re`
backtracks, so one pattern could hold up the broker for years. This walks all alternatives at once, and notes each set
of them that it has met.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from typing import Final, NamedTuple

REPEAT_MAX: Final = 1_000
# What a pattern may become, its repetitions written out.
INSTRUCTIONS_MAX: Final = 10_000
NESTING_MAX: Final = 100
# Sets of alternatives, and steps from one to the next, that are noted; then the notes are begun anew.
NOTED_MAX: Final = 10_000

Test = Callable[[str], bool]
Instruction = tuple[str, object]


class PatternError(ValueError):
    """Not a regular expression of the syntax above; says where and why."""


class _Place(NamedTuple):
    """What lies around a position: what `^ $ \\b` look at."""

    at_start: bool
    at_end: bool
    word_before: bool
    word_after: bool


def _is_word(char: str) -> bool:
    return char.isascii() and (char.isalnum() or char == "_")


def _is_digit(char: str) -> bool:
    return "0" <= char <= "9"


def _is_space(char: str) -> bool:
    return char in "\t\n\f\r "


def _negated(test: Test) -> Test:
    return lambda char: not test(char)


_SHORT: Final[dict[str, Test]] = {
    "d": _is_digit,
    "D": _negated(_is_digit),
    "w": _is_word,
    "W": _negated(_is_word),
    "s": _is_space,
    "S": _negated(_is_space),
}
_CONTROL: Final = {"a": "\a", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_POSIX: Final[dict[str, Test]] = {
    "alnum": lambda c: c.isascii() and c.isalnum(),
    "alpha": lambda c: c.isascii() and c.isalpha(),
    "ascii": str.isascii,
    "blank": lambda c: c in "\t ",
    "cntrl": lambda c: c < " " or c == "\x7f",
    "digit": _is_digit,
    "graph": lambda c: "!" <= c <= "~",
    "lower": lambda c: "a" <= c <= "z",
    "print": lambda c: " " <= c <= "~",
    "punct": lambda c: "!" <= c <= "~" and not c.isalnum(),
    "space": lambda c: c in "\t\n\v\f\r ",
    "upper": lambda c: "A" <= c <= "Z",
    "word": _is_word,
    "xdigit": lambda c: c in "0123456789abcdefABCDEF",
}
_ANCHORS: Final[dict[str, Callable[[_Place], bool]]] = {
    "A": lambda place: place.at_start,
    "z": lambda place: place.at_end,
    "b": lambda place: place.word_before != place.word_after,
    "B": lambda place: place.word_before == place.word_after,
}
# General categories of Unicode: of each group of them, the letters that may follow.
_CATEGORIES: Final = frozenset(
    group + one
    for group, ones in (
        ("C", "cfos"),
        ("L", "lmotu"),
        ("M", "cen"),
        ("N", "dlo"),
        ("P", "cdefios"),
        ("S", "ckmo"),
        ("Z", "lps"),
    )
    for one in ("", *ones)
)


class _Node(NamedTuple):
    """A part of a pattern: `kind` is "test", "anchor", "join", "either" or "repeat"."""

    kind: str
    value: object = None
    parts: tuple[_Node, ...] = ()
    least: int = 0
    most: int | None = None


class _Parser:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.depth = 0
        self.ignore_case = False
        self.dot_all = False

    def fail(self, why: str) -> PatternError:
        return PatternError(f"Transaction ID pattern `{self.text}` is not a valid regular expression: {why}.")

    def peek(self) -> str:
        return self.text[self.at : self.at + 1]

    def take(self, what: str) -> bool:
        if self.text.startswith(what, self.at):
            self.at += len(what)
            return True
        return False

    def next(self) -> str:
        if self.at >= len(self.text):
            raise self.fail("it ends too early")
        self.at += 1
        return self.text[self.at - 1]

    def until(self, end: str) -> str:
        stop = self.text.find(end, self.at)
        if stop < 0:
            raise self.fail(f"missing {end}")
        found, self.at = self.text[self.at : stop], stop + len(end)
        return found

    def parse(self) -> _Node:
        node = self.either()
        if self.at < len(self.text):
            raise self.fail("unexpected )")
        return node

    def either(self) -> _Node:
        branches = [self.join()]
        while self.take("|"):
            branches.append(self.join())
        return branches[0] if len(branches) == 1 else _Node("either", parts=tuple(branches))

    def join(self) -> _Node:
        parts: list[_Node] = []
        while self.peek() not in ("", "|", ")"):
            if self.take("\\Q"):
                stop = self.text.find("\\E", self.at)
                quoted = self.text[self.at : stop if stop >= 0 else None]
                self.at = len(self.text) if stop < 0 else stop + 2
                parts += [self.literal(char) for char in quoted]
                continue
            atom = self.atom()
            if atom is not None:
                parts.append(self.repeated(atom))
        return _Node("join", parts=tuple(parts))

    def repeated(self, atom: _Node) -> _Node:
        start = self.at
        bounds = self.bounds()
        if bounds is None:
            return atom
        self.take("?")  # Lazy or not is the same where the whole text must fit.
        if self.bounds() is not None:
            raise self.fail(f"invalid nested repetition operator `{self.text[start : self.at]}`")
        least, most = bounds
        if least > REPEAT_MAX or (most is not None and (most > REPEAT_MAX or most < least)):
            raise self.fail(f"invalid repeat count `{self.text[start : self.at]}`")
        return _Node("repeat", parts=(atom,), least=least, most=most)

    def bounds(self) -> tuple[int, int | None] | None:
        for sign, found in (("*", (0, None)), ("+", (1, None)), ("?", (0, 1))):
            if self.take(sign):
                return found
        if self.peek() != "{":
            return None
        low, comma, high = self.text[self.at + 1 :].partition("}")[0].partition(",")
        if "}" not in self.text[self.at :] or not _number(low) or not (high == "" or _number(high)):
            return None  # A brace that is no repetition stands for itself.
        self.at = self.text.index("}", self.at) + 1
        return int(low), (None if not high else int(high)) if comma else int(low)

    def atom(self) -> _Node | None:
        if self.bounds() is not None:
            raise self.fail("missing argument to repetition operator")
        char = self.next()
        if char == "(":
            return self.group()
        if char == "[":
            return _Node("test", self.folded(self.char_class()))
        if char == ".":
            return _Node("test", (lambda c: True) if self.dot_all else (lambda c: c != "\n"))
        if char == "^":
            return _Node("anchor", _ANCHORS["A"])
        if char == "$":
            return _Node("anchor", _ANCHORS["z"])
        if char == "\\":
            if self.peek() in _ANCHORS and self.peek():
                return _Node("anchor", _ANCHORS[self.next()])
            found = self.escape()
            return _Node("test", self.folded(found)) if callable(found) else self.literal(found)
        return self.literal(char)

    def group(self) -> _Node | None:
        self.depth += 1
        if self.depth > NESTING_MAX:
            raise self.fail("expression nests too deeply")
        before = self.ignore_case, self.dot_all
        if self.take("?P<") or (self.text.startswith("?<", self.at) and self.take("?<")):
            if not self.until(">").isidentifier():
                raise self.fail("invalid named capture")
        elif self.take("?"):
            on = True
            while (flag := self.next()) not in ":)":
                if flag == "-" and on:
                    on = False
                elif flag == "i":
                    self.ignore_case = on
                elif flag == "s":
                    self.dot_all = on
                else:
                    raise self.fail(f"invalid or unsupported perl operator `(?{flag}`")
            if flag == ")":
                self.depth -= 1
                return None
        node = self.either()
        if not self.take(")"):
            raise self.fail("missing closing )")
        self.ignore_case, self.dot_all = before
        self.depth -= 1
        return node

    def escape(self) -> str | Test:
        char = self.next()
        if char in _SHORT:
            return _SHORT[char]
        if char in _CONTROL:
            return _CONTROL[char]
        if char in "pP":
            name = self.until("}") if self.take("{") else self.next()
            if name not in _CATEGORIES:
                raise self.fail(f"invalid character class range `\\{char}{{{name}}}`")
            test: Test = lambda c: unicodedata.category(c).startswith(name)  # noqa: E731
            return test if char == "p" else _negated(test)
        if char == "x":
            digits = self.until("}") if self.take("{") else self.next() + self.next()
            try:
                return chr(int(digits, 16))
            except (ValueError, OverflowError):
                raise self.fail(f"invalid escape sequence `\\x{digits}`") from None
        if char == "0" or (char in "1234567" and self.peek() in tuple("01234567")):
            digits = char
            while len(digits) < 3 and self.peek() and self.peek() in "01234567":
                digits += self.next()
            return chr(int(digits, 8))
        if char.isascii() and not char.isalnum():
            return char
        raise self.fail(f"invalid escape sequence `\\{char}`")

    def char_class(self) -> Test:
        negated = self.take("^")
        tests: list[Test] = []
        first = True
        while first or self.peek() != "]":
            if not self.peek():
                raise self.fail("missing closing ]")
            first = False
            if self.take("[:"):
                invert = self.take("^")
                name = self.until(":]")
                if name not in _POSIX:
                    raise self.fail(f"invalid character class range `[:{name}:]`")
                tests.append(_negated(_POSIX[name]) if invert else _POSIX[name])
                continue
            low = self.class_char()
            if not isinstance(low, str):
                tests.append(low)
                continue
            high: str | Test = low
            if self.peek() == "-" and self.text[self.at + 1 : self.at + 2] not in ("", "]"):
                self.at += 1
                high = self.class_char()
            if not isinstance(high, str) or high < low:
                raise self.fail("invalid character class range")
            tests.append(_between(low, high))
        self.at += 1
        test: Test = lambda char: any(one(char) for one in tests)  # noqa: E731
        folded = self.folded(test)
        return _negated(folded) if negated else folded

    def class_char(self) -> str | Test:
        char = self.next()
        return self.escape() if char == "\\" else char

    def literal(self, char: str) -> _Node:
        return _Node("test", self.folded(_between(char, char)))

    def folded(self, test: Test) -> Test:
        if not self.ignore_case:
            return test
        return lambda char: test(char) or test(char.lower()) or test(char.upper())


def _between(low: str, high: str) -> Test:
    return lambda char: low <= char <= high


def _number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 9


class _Program:
    """Instructions: ("test", f), ("anchor", f) go on with the next one; ("split", places); ("end", None)."""

    def __init__(self, node: _Node, fail: Callable[[str], PatternError]) -> None:
        self.code: list[Instruction] = []
        self._fail = fail
        self._emit(node)
        self._add("end", None)

    def _add(self, kind: str, value: object) -> int:
        if len(self.code) >= INSTRUCTIONS_MAX:
            raise self._fail("expression too large")
        self.code.append((kind, value))
        return len(self.code) - 1

    def _emit(self, node: _Node) -> None:
        if node.kind == "join":
            for part in node.parts:
                self._emit(part)
        elif node.kind == "either":
            self._emit_either(node.parts)
        elif node.kind == "repeat":
            self._emit_repeat(node)
        else:
            self._add(node.kind, node.value)

    def _emit_either(self, parts: tuple[_Node, ...]) -> None:
        split = self._add("split", ())
        starts, jumps = [], []
        for part in parts:
            starts.append(len(self.code))
            self._emit(part)
            jumps.append(self._add("split", ()))
        self.code[split] = ("split", tuple(starts))
        for jump in jumps:
            self.code[jump] = ("split", (len(self.code),))

    def _emit_repeat(self, node: _Node) -> None:
        (part,) = node.parts
        for _ in range(node.least):
            self._emit(part)
        if node.most is None:
            split = self._add("split", ())
            self._emit(part)
            self._add("split", (split,))
            self.code[split] = ("split", (split + 1, len(self.code)))
            return
        splits = []
        for _ in range(node.most - node.least):
            splits.append(self._add("split", ()))
            self._emit(part)
        for split in splits:
            self.code[split] = ("split", (split + 1, len(self.code)))


class Pattern:
    """A compiled pattern. Raises PatternError."""

    def __init__(self, text: str) -> None:
        parser = _Parser(text)
        self._code = _Program(parser.parse(), parser.fail).code
        self._noted: dict[tuple[frozenset[int], str, _Place], frozenset[int]] = {}
        self._reached: dict[tuple[frozenset[int], _Place], frozenset[int]] = {}

    def matches(self, text: str) -> bool:
        """Whether the pattern fits the whole text."""
        states = frozenset((0,))
        for at, char in enumerate(text):
            place = _Place(at == 0, False, at > 0 and _is_word(text[at - 1]), _is_word(char))
            key = (states, char, place)
            after = self._noted.get(key)
            if after is None:
                after = self._step(states, char, place)
                if len(self._noted) >= NOTED_MAX:
                    self._noted.clear()
                self._noted[key] = after
            if not after:
                return False
            states = after
        place = _Place(not text, True, bool(text) and _is_word(text[-1]), False)
        return any(self._code[at][0] == "end" for at in self._reach(states, place))

    def _step(self, states: frozenset[int], char: str, place: _Place) -> frozenset[int]:
        code = self._code
        return frozenset(
            at + 1
            for at in self._reach(states, place)
            if code[at][0] == "test" and code[at][1](char)  # type: ignore[operator]
        )

    def _reach(self, states: frozenset[int], place: _Place) -> frozenset[int]:
        """All instructions that can be got to without a character."""
        found = self._reached.get((states, place))
        if found is not None:
            return found
        seen: set[int] = set()
        left = list(states)
        while left:
            at = left.pop()
            if at in seen:
                continue
            seen.add(at)
            kind, value = self._code[at]
            if kind == "split":
                left += value  # type: ignore[arg-type]
            elif kind == "anchor" and value(place):  # type: ignore[operator]
                left.append(at + 1)
        if len(self._reached) >= NOTED_MAX:
            self._reached.clear()
        self._reached[states, place] = frozenset(seen)
        return self._reached[states, place]
