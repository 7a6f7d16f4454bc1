"""Styles of the parts of a text, also while it is being written. Pure."""

from __future__ import annotations

from broker_sql.dialect import Kind, tokens
from broker_sql.errors import ParseError

# Names of styles in editor.STYLE.
KEYWORD, NAME, STRING, NUMBER, COMMENT, FUNCTION, WRONG = (
    "keyword",
    "name",
    "string",
    "number",
    "comment",
    "function",
    "wrong",
)
_STYLES = {Kind.QUOTED: NAME, Kind.STRING: STRING, Kind.NUMBER: NUMBER}


def styled(text: str) -> list[tuple[str, str]]:
    """Return the text in parts, each with its style; "" for none."""
    try:
        found, end = tokens(text), len(text)
    except ParseError as error:
        end = _offset(text, error)
        if end >= len(text):
            return [("", text)]
        try:
            found = tokens(text[:end])
        except ParseError:
            return [("", text)]
    parts: list[tuple[str, str]] = []
    last = 0
    for index, token in enumerate(found):
        if token.kind is Kind.END:
            break
        _gap(parts, text[last : token.start])
        style = _STYLES.get(token.kind, "")
        follows = found[index + 1]
        if token.kind is Kind.WORD:
            called = follows.text == "(" and follows.start == token.end
            style = FUNCTION if called and token.upper != "IN" else KEYWORD if token.is_keyword else ""
        parts.append((style, text[token.start : token.end]))
        last = token.end
    _gap(parts, text[last:end])
    if end < len(text):
        rest = text[end:]
        parts.append((STRING if rest[0] in "'" else COMMENT if rest.startswith("/*") else WRONG, rest))
    return parts


def _gap(parts: list[tuple[str, str]], text: str) -> None:
    """Add what is between tokens: space, and comments."""
    if text:
        parts.append((COMMENT if text.strip() else "", text))


def _offset(text: str, error: ParseError) -> int:
    if error.location is None:
        return len(text)
    lines = text.split("\n")
    return sum(len(line) + 1 for line in lines[: error.location.line - 1]) + error.location.column - 1


def marked(text: str, error: ParseError) -> str:
    """Return the line of an error with a mark below its place, or nothing if the error has no place."""
    if error.location is None:
        return ""
    lines = text.split("\n")
    if error.location.line > len(lines):
        return ""
    line = lines[error.location.line - 1].expandtabs(1)
    return f"{line}\n{' ' * (error.location.column - 1)}^"
