"""A cursor over the tokens of a text: what Wire reads of a .proto in one piece, and errors with their position."""

from __future__ import annotations

import re
from typing import Final, NoReturn

from broker_registry.schema_types.base import InvalidSchema
from broker_registry.schema_types.protobuf.lexer import END, position, tokens_of, unquoted

NESTING_MAX: Final = 64
"""How deep messages and maps may be nested. protobuf reads descriptors of 100 levels at most. A nested message takes
one, an option two more.
"""
_WORD: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.")
_DECIMAL: Final = re.compile(r"-?[0-9]+").fullmatch
_HEXADECIMAL: Final = re.compile(r"0[xX](-?[0-9a-fA-F]+)").fullmatch
_NUMBER_LENGTH_MAX: Final = 40


class Cursor:
    """`at` is the index of the next token. Each function reads its element and moves behind it."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = tokens_of(text)
        self.at = 0

    def fail(self, message: str, at: int | None = None) -> NoReturn:
        line, column = position(self.text, self.at if at is None else at)
        raise InvalidSchema(f"Syntax error at line {line}, column {column}: {message}")

    def found(self) -> str:
        """Describe the current token, for messages."""
        token = self.tokens[self.at]
        if token == END:
            return "the end of the text"
        if token in ('"', "'"):
            return "a string without its closing quote"
        if token == "/":
            return "'/', which begins no complete comment"
        return f"'{token[:40]}'"

    def require(self, token: str) -> None:
        if self.tokens[self.at] != token:
            self.fail(f"expected '{token}', found {self.found()}")
        self.at += 1

    def accept(self, token: str) -> bool:
        if self.tokens[self.at] == token:
            self.at += 1
            return True
        return False

    def word(self) -> str:
        token = self.tokens[self.at]
        if token[:1] not in _WORD or token == END:
            self.fail(f"expected a word, found {self.found()}")
        self.at += 1
        return token

    def is_quoted(self) -> bool:
        return self.tokens[self.at][:1] in ('"', "'") and self.tokens[self.at] != END

    def quoted(self) -> str:
        """Read a string; adjacent ones are one string."""
        if not self.is_quoted():
            self.fail(f"expected a quoted string, found {self.found()}")
        parts = []
        while self.is_quoted():
            token = self.tokens[self.at]
            if len(token) == 1:
                self.fail(f"found {self.found()}")
            try:
                parts.append(unquoted(token))
            except ValueError as error:
                self.fail(str(error))
            self.at += 1
        return "".join(parts)

    def integer(self) -> int:
        """Read a number of 32 bits. A leading 0 has no meaning, unlike in protoc."""
        at = self.at
        word = self.word()
        value = None
        if len(word) <= _NUMBER_LENGTH_MAX:
            if _DECIMAL(word):
                value = int(word)
            elif match := _HEXADECIMAL(word):
                value = int(match[1], 16)
        if value is None or not -(1 << 31) <= value < 1 << 31:
            self.fail(f"expected an integer, found '{word[:40]}'", at)
        return value

    def name(self) -> str:
        """Read a word, alone or in parentheses or brackets, which are left out."""
        for opening, closing in (("(", ")"), ("[", "]")):
            if self.accept(opening):
                word = self.word()
                self.require(closing)
                return word
        return self.word()

    def data_type(self, first: str | None = None) -> str:
        """Read a type, whose parts may have spaces between them; `first` has been read already."""
        depth = 0
        # map<map<...: the grammar allows any depth, which `link` refuses.
        prefixes: list[str] = []
        name = self.word() if first is None else first
        while name == "map":
            depth += 1
            if depth > NESTING_MAX:
                self.fail(f"maps are nested deeper than {NESTING_MAX}")
            self.require("<")
            key = self.data_type() if self.tokens[self.at] != "map" else self.fail("a map is no key of a map")
            self.require(",")
            prefixes.append(f"map<{key}, ")
            name = self.word()
        while self.tokens[self.at][:1] == ".":
            rest = self.word()
            name += rest if rest != "." else "." + self.word()
        for prefix in reversed(prefixes):
            self.require(">")
            name = f"{prefix}{name}>"
        return name
