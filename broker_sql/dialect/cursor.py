"""A place between the tokens of one statement, and the errors of it.

Every question at a place (`accept`, `expect`) is remembered as expected there until a token is taken. So an error names
everything that could have stood at its place."""

from __future__ import annotations

from difflib import get_close_matches
from typing import NoReturn

from broker_sql.dialect.tokenizer import Kind, Token
from broker_sql.dialect.words import KEYWORDS, RESERVED
from broker_sql.errors import Location, ParseError
from broker_sql.statements import Name

MAX_DEPTH = 128  # of expressions, types and statements in each other: Python's stack holds them


class Unexpected(ParseError):
    """A token that cannot stand at its place. `expected` are words in upper case, symbols in quotes, and phrases."""

    def __init__(self, message: str, location: Location, expected: tuple[str, ...]) -> None:
        super().__init__(message, location)
        self.expected = expected


class Cursor:
    """Reads the tokens of a statement; the last one is END."""

    def __init__(self, tokens: list[Token], text: str = "") -> None:
        self.tokens = tokens
        self.text = text
        self.index = 0
        self._expected: dict[str, None] = {}  # in the order of the questions; words in upper case, symbols in quotes
        self._name_wanted = False
        self._depth = 0

    @property
    def token(self) -> Token:
        return self.tokens[self.index]

    @property
    def location(self) -> Location:
        return self.token.location

    def text_from(self, start: int) -> str:
        """Return the text from an offset to the last token that was taken."""
        return self.text[start : self.tokens[max(self.index - 1, 0)].end]

    def ahead(self, count: int) -> Token:
        return self.tokens[min(self.index + count, len(self.tokens) - 1)]

    def advance(self) -> Token:
        token = self.token
        if token.kind is not Kind.END:
            self.index += 1
        self._expected.clear()
        self._name_wanted = False
        return token

    # -- words and symbols

    def at_words(self, *words: str) -> bool:
        """Tell whether these words are next. Not remembered as expected."""
        return all(self.ahead(offset).upper == word for offset, word in enumerate(words))

    def accept(self, *words: str) -> bool:
        """Take these words if they are next."""
        if self.at_words(*words):
            for _ in words:
                self.advance()
            return True
        self.wanted(" ".join(words))
        return False

    def accept_one(self, *words: str) -> str | None:
        """Take one of these words, and return it."""
        found = self.token.upper
        if found in words:
            self.advance()
            return found
        for word in words:
            self.wanted(word)
        return None

    def expect(self, *words: str) -> None:
        """Take these words, which must be next."""
        for word in words:
            if not self.accept(word):
                self.fail()

    def expect_one(self, *words: str) -> str:
        return self.accept_one(*words) or self.fail()

    def at_symbol(self, symbol: str) -> bool:
        return self.token.kind is Kind.SYMBOL and self.token.text == symbol

    def accept_symbol(self, symbol: str, quiet: bool = False) -> bool:
        """Take a symbol if it is next. `quiet`: an operator, which could stand behind nearly everything."""
        if self.at_symbol(symbol):
            self.advance()
            return True
        if not quiet:
            self.wanted(f"'{symbol}'")
        return False

    def expect_symbol(self, symbol: str) -> None:
        if not self.accept_symbol(symbol):
            self.fail()

    # -- values

    def accept_kind(self, kind: Kind, wanted: str | None = None) -> Token | None:
        if self.token.kind is kind:
            return self.advance()
        self.wanted(wanted or f"a {kind.value}")
        return None

    def string(self, wanted: str = "a string in single quotes") -> str:
        token = self.accept_kind(Kind.STRING, wanted) or self.fail()
        return token.text

    def whole_number(self, wanted: str = "a whole number") -> int:
        token = self.token
        if token.kind is Kind.NUMBER and token.text.isdigit():
            self.advance()
            return int(token.text)
        self.wanted(wanted)
        return self.fail()

    def at_name(self) -> bool:
        token = self.token
        return token.kind is Kind.QUOTED or (token.kind is Kind.WORD and token.upper not in RESERVED)

    def name(self, wanted: str = "a name") -> Name:
        """Take a name, in its final case."""
        token = self.token
        if self.at_name():
            self.advance()
            return Name(token.text if token.kind is Kind.QUOTED else token.text.upper(), token.location)
        self.wanted(wanted)
        self._name_wanted = True
        return self.fail()

    def name_or_string(self, wanted: str) -> Name:
        """Take a name, or a string that is one: of a topic, a subject, a connector."""
        token = self.accept_kind(Kind.STRING, wanted)
        return Name(token.text, token.location) if token else self.name(wanted)

    # -- errors

    @property
    def expected(self) -> tuple[str, ...]:
        """Return what could stand at this place."""
        return tuple(self._expected)

    def wanted(self, text: str) -> None:
        self._expected[text] = None

    def fail(self) -> NoReturn:
        """Raise the error of the token that is next."""
        token = self.token
        reserved = self._name_wanted and token.upper in RESERVED
        found = f"{token} is a reserved word" if reserved else f"unexpected {token}"
        expected = f"; expected {_listed(list(self._expected))}" if self._expected else ""
        hint = self._hint(token) or (f"; write `{token.upper}` for a name" if reserved else "")
        raise Unexpected(found + expected + hint, token.location, self.expected)

    def error(self, message: str, location: Location | None = None) -> NoReturn:
        raise ParseError(message, location or self.location)

    def _hint(self, token: Token) -> str:
        """Return a suggestion: a word that is expected, near the found one or near the one before it.

        `SELECT a FORM b`: FORM was taken as the name of a, and the error stands at b."""
        words = sorted({word for each in self._expected if each.isupper() for word in each.split()} - {"';'"})
        if token.upper not in words and (near := get_close_matches(token.upper, words, 1, 0.6)):
            return f"; did you mean {near[0]}?"
        before = self.tokens[self.index - 1] if self.index else None
        if before and before.upper not in KEYWORDS and (near := get_close_matches(before.upper, words, 1, 0.7)):
            return f"; did you mean {near[0]} instead of {before.text} before it?"
        return ""

    # -- depth

    def __enter__(self) -> Cursor:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            self.error(f"more than {MAX_DEPTH} expressions or types in each other")
        return self

    def __exit__(self, *_: object) -> None:
        self._depth -= 1


def _listed(items: list[str]) -> str:
    return items[0] if len(items) == 1 else ", ".join(items[:-1]) + f" or {items[-1]}" if items else ""
