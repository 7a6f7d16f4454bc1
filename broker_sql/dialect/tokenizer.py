"""Tokens of a text, with their places."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import ClassVar

from sqlglot.errors import TokenError
from sqlglot.tokenizer_core import Token as SqlglotToken
from sqlglot.tokenizer_core import TokenType
from sqlglot.tokens import Tokenizer

from broker_sql.dialect.words import KEYWORDS
from broker_sql.errors import Location, ParseError

MAX_TEXT = 4 << 20  # characters of a text with statements


class Kind(Enum):
    """Forms of tokens. WORD may be a keyword or a name; QUOTED is a name in backquotes or double quotes."""

    WORD = "word"
    QUOTED = "quoted name"
    STRING = "string"
    NUMBER = "number"
    SYMBOL = "symbol"
    END = "end of the statement"


@dataclass(frozen=True, slots=True)
class Token:
    """`text` is as written, without quotes for QUOTED and STRING; `start` and `end` are offsets in the text."""

    kind: Kind
    text: str
    start: int
    end: int
    location: Location

    @property
    def upper(self) -> str:
        """Return the upper case of a word, and nothing for other tokens: a quoted name is no keyword."""
        return self.text.upper() if self.kind is Kind.WORD else ""

    @property
    def is_keyword(self) -> bool:
        return self.upper in KEYWORDS

    def __str__(self) -> str:
        return self.kind.value if self.kind is Kind.END else f"'{self.text}'"


class KsqlTokenizer(Tokenizer):
    """sqlglot's tokenizer with ksqlDB's quotes, comments and symbols. Keywords stay words: the parser knows them."""

    QUOTES: ClassVar[list[tuple[str, str] | str]] = ["'"]
    IDENTIFIERS: ClassVar[list[str | tuple[str, str]]] = ["`", '"']
    STRING_ESCAPES: ClassVar[list[str]] = ["'"]
    COMMENTS: ClassVar[list[str | tuple[str, str]]] = ["--", ("/*", "*/")]
    NESTED_COMMENTS = False
    COMMANDS: ClassVar[set[TokenType]] = set()
    NUMERIC_LITERALS: ClassVar[dict[str, str]] = {}
    KEYWORDS: ClassVar[dict[str, TokenType]] = {
        "->": TokenType.ARROW,
        "=>": TokenType.FARROW,
        ":=": TokenType.COLON_EQ,
        "||": TokenType.DPIPE,
        "<>": TokenType.NEQ,
        "!=": TokenType.NEQ,
        "<=": TokenType.LTE,
        ">=": TokenType.GTE,
    }
    SINGLE_TOKENS: ClassVar[dict[str, TokenType]] = dict.fromkeys("()[]{},;.+-*/%=<>:!|&^~?#$\\`\"'", TokenType.UNKNOWN)


_WORD = re.compile(r"[^\W\d][\w@]*", re.ASCII)
_UNCLOSED = re.compile(r"Missing (\S+) from")
_CLOSERS = {"$$": "text in $$", "'": "string", "`": "name in backquotes", '"': "name in double quotes"}
# Strings, quoted names and comments that end; then their first characters, if they do not end.
_PIECES = re.compile(
    r"\$\$(?!\{).*?\$\$|'(?:[^']|'')*'|`(?:[^`]|``)*`|\"(?:[^\"]|\"\")*\"|--[^\n]*|/\*.*?\*/"
    r"|['`\"]|/\*|\$\$(?!\{)",
    re.S,
)


def places(text: str) -> Callable[[int], Location]:
    """Return a function from an offset to its place."""
    starts = [0] + [each.end() for each in re.finditer("\n", text)]

    def place(offset: int) -> Location:
        line = bisect_right(starts, offset)
        return Location(line, offset - starts[line - 1] + 1)

    return place


def tokenize(text: str, place: Callable[[int], Location] | None = None) -> list[Token]:
    """Return the tokens of a text, with END as the last one. Comments are left out.

    `place` gives the places of offsets; default: those in the text itself. Raises ParseError for a string, name or
    comment that does not end, for a character that no statement has, and for a text above MAX_TEXT."""
    place = place or places(text)
    if len(text) > MAX_TEXT:
        raise ParseError(f"the text has {len(text)} characters: at most {MAX_TEXT} are allowed")
    bodies = _check_ends(text, place)
    try:
        found = KsqlTokenizer().tokenize(_without(text, bodies))
    except TokenError as error:  # _check_ends leaves nothing known to fail here
        raise ParseError(str(error)) from None
    tokens: list[Token] = []
    for each in found:
        token = _token(each, text, place, bodies)
        before = tokens[-1] if tokens else None
        if token.kind is Kind.NUMBER and before and before.end == token.start:
            if before.text == "." and before.kind is Kind.SYMBOL:  # .5
                tokens.pop()
                token = Token(Kind.NUMBER, "." + token.text, before.start, token.end, before.location)
        elif token.kind is Kind.WORD and before and before.kind is Kind.NUMBER and before.end == token.start:
            tokens.pop()
            text_ = before.text + token.text
            if not before.text.isdigit():
                raise ParseError(f"'{text_}' is neither a number nor a name", before.location)
            token = Token(Kind.WORD, text_, before.start, token.end, before.location)  # a name may begin with digits
        tokens.append(token)
    end = len(text)
    tokens.append(Token(Kind.END, "", end, end, place(len(text.rstrip()))))
    return tokens


def _without(text: str, bodies: dict[int, str]) -> str:
    """Return the text with a string of the same length in place of each text in $$."""
    for start, body in bodies.items():
        end = start + len(body) + 4
        text = f"{text[:start]}'{' ' * (len(body) + 2)}'{text[end:]}"
    return text


def _check_ends(text: str, place: Callable[[int], Location]) -> dict[int, str]:
    """Return the texts in $$ by their offsets. Raises ParseError: a string, name, text or comment does not end."""
    bodies: dict[int, str] = {}
    for each in _PIECES.finditer(text):
        piece = each.group()
        if piece.startswith("$$") and len(piece) >= 4:
            bodies[each.start()] = piece[2:-2]
        if piece in _CLOSERS:
            message = f"the {_CLOSERS[piece]} that begins here does not end: {piece} is missing"
            raise ParseError(message, place(each.start()))
        if piece == "/*":
            raise ParseError("the comment that begins here does not end: */ is missing", place(each.start()))
    return bodies


def _token(each: SqlglotToken, text: str, place: Callable[[int], Location], bodies: dict[int, str]) -> Token:
    start, end = each.start, each.end + 1
    if start in bodies:
        return Token(Kind.STRING, bodies[start], start, end, place(start))
    raw = text[start:end]
    if each.token_type is TokenType.STRING:
        kind = Kind.STRING
    elif each.token_type is TokenType.IDENTIFIER and raw[0] in '`"':
        kind = Kind.QUOTED
    elif each.token_type is TokenType.NUMBER:
        kind = Kind.NUMBER
    elif _WORD.fullmatch(raw):
        kind = Kind.WORD
    elif (each.token_type in _SYMBOLS and raw[0] not in "{}!|&^~?#$\\:") or raw in (":=", "!=", "||"):
        kind = Kind.SYMBOL
    elif raw == "$" and text[start : start + 2] == "${":
        raise ParseError(f"variable {text[start : text.find('}', start) + 1]} is not defined", place(start))
    elif raw.isidentifier():
        raise ParseError(f"{raw} has letters that only a quoted name may have: write `{raw}`", place(start))
    else:
        raise ParseError(f"'{raw}' is no part of a statement", place(start))
    return Token(kind, each.text if kind in (Kind.STRING, Kind.QUOTED) else raw, start, end, place(start))


_SYMBOLS = {*KsqlTokenizer.KEYWORDS.values(), TokenType.UNKNOWN}
