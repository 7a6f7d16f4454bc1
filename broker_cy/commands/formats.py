"""Formats of printed records: kcat's format strings, and delimited values."""

from __future__ import annotations

from collections.abc import Callable

from broker_cy.admin.metadata import TopicPartition
from broker_cy.console.values import unescape
from broker_cy.wire.records import Record

FORMAT_HELP = r"""%s value, %S its length, %k key, %K its length, %t topic, %p partition, %o offset, %T timestamp in ms,
%h headers, %% a percent sign, and \n \t \r \0 \\ \xHH"""

Printer = Callable[[TopicPartition, Record], bytes]
_NULL_LENGTH = b"-1"


def _length(data: bytes | None) -> bytes:
    return _NULL_LENGTH if data is None else str(len(data)).encode()


def _headers(record: Record, null: bytes) -> bytes:
    return b",".join(name.encode() + b"=" + (null if value is None else value) for name, value in record.headers)


def compile_format(text: str, null: bytes = b"") -> Printer:
    """Return a printer for kcat's format; `null` is printed for a key or value that is null.

    Raises ValueError, which lists the allowed conversions, for an unknown one.
    """
    tokens: dict[str, Printer] = {
        "s": lambda key, record: null if record.value is None else record.value,
        "S": lambda key, record: _length(record.value),
        "k": lambda key, record: null if record.key is None else record.key,
        "K": lambda key, record: _length(record.key),
        "t": lambda key, record: key.topic.encode(),
        "p": lambda key, record: str(key.partition).encode(),
        "o": lambda key, record: str(record.offset).encode(),
        "T": lambda key, record: str(record.timestamp).encode(),
        "h": lambda key, record: _headers(record, null),
    }
    parts: list[Printer] = []

    def literal(data: bytes) -> Printer:
        return lambda key, record: data

    pieces = text.split("%")
    if pieces[0]:
        parts.append(literal(unescape(pieces[0])))
    index = 1
    while index < len(pieces):
        piece = pieces[index]
        if not piece:
            # A doubled percent sign stands for one; the characters after it are literal text.
            rest = pieces[index + 1] if index + 1 < len(pieces) else None
            if rest is None:
                raise ValueError(f"{text!r} ends in an incomplete conversion; allowed are: {FORMAT_HELP}")
            parts.append(literal(b"%" + unescape(rest)))
            index += 2
            continue
        if piece[0] not in tokens:
            raise ValueError(f"unknown conversion %{piece[0]}; allowed are: {FORMAT_HELP}")
        parts.append(tokens[piece[0]])
        if piece[1:]:
            parts.append(literal(unescape(piece[1:])))
        index += 1
    return lambda key, record: b"".join([part(key, record) for part in parts])


def delimited(delimiter: bytes, key_delimiter: bytes | None, null: bytes = b"") -> Printer:
    """Return a printer of the value and the record delimiter, preceded by the key and its delimiter if one is given."""
    if key_delimiter is None:
        return lambda key, record: (null if record.value is None else record.value) + delimiter
    return lambda key, record: (
        (null if record.key is None else record.key)
        + key_delimiter
        + (null if record.value is None else record.value)
        + delimiter
    )
