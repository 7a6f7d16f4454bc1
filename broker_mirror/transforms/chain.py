"""Transforms and predicates as functions of one record, and their order: org.apache.kafka.connect.transforms of Kafka,
and TransformationStage of its runtime.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

from broker_mirror.transforms.literals import Literal

HeaderValue = bytes | Literal | None
"""A literal is one of InsertHeader; null literals are None."""
Headers = tuple[tuple[str, HeaderValue], ...]


class Message(NamedTuple):
    """A record on its way to the target. `topic` is that of the target; `timestamp` is in milliseconds, -1 without
    one.
    """

    topic: str
    key: bytes | None
    value: bytes | None
    headers: Headers
    timestamp: int


Transform = Callable[[Message], Message | None]
"""Returns None for a record that is left out."""
Predicate = Callable[[Message], bool]


def insert_header(name: str, value: HeaderValue) -> Transform:
    """InsertHeader: a further header at the end, also if the record has one of this name."""
    added = ((name, value),)
    return lambda message: message._replace(headers=message.headers + added)


def drop_headers(names: Iterable[str]) -> Transform:
    """DropHeaders: all headers with one of these names."""
    dropped = frozenset(names)

    def apply(message: Message) -> Message:
        kept = tuple(each for each in message.headers if each[0] not in dropped)
        return message if len(kept) == len(message.headers) else message._replace(headers=kept)

    return apply


def leave_out(_: Message) -> None:
    """Filter."""


def topic_name_matches(pattern: re.Pattern[str]) -> Predicate:
    """TopicNameMatches: the pattern matches the whole name of the topic of the target."""
    return lambda message: pattern.fullmatch(message.topic) is not None


def has_header_key(name: str) -> Predicate:
    """HasHeaderKey."""
    return lambda message: any(key == name for key, _ in message.headers)


def record_is_tombstone(message: Message) -> bool:
    """RecordIsTombstone: a record without a value."""
    return message.value is None


class Stage(NamedTuple):
    """A transform, and the predicate for which it is applied; with `negate`, for which it is not."""

    transform: Transform
    predicate: Predicate | None = None
    negate: bool = False


@dataclass(frozen=True, slots=True)
class Chain:
    """The stages of a flow in their order. `as_text`: its header converter is SimpleHeaderConverter; otherwise it is
    ByteArrayConverter, and no header is a literal.
    """

    stages: tuple[Stage, ...]
    as_text: bool = False

    def apply(self, message: Message) -> Message | None:
        """Return the record that is written; None if it is left out. A stage sees what those before it have made."""
        for transform, predicate, negate in self.stages:
            if predicate is not None and predicate(message) is negate:
                continue
            changed = transform(message)
            if changed is None:
                return None
            message = changed
        return message

    def written(self, headers: Headers) -> tuple[tuple[str, bytes | None], ...]:
        """Return headers as the header converter writes them."""
        write = _text_of if self.as_text else _bytes_of
        return tuple((name, write(value)) for name, value in headers)


def _text_of(value: HeaderValue) -> bytes | None:
    """SimpleHeaderConverter: literals as text, and bytes as text in Base64."""
    if value is None:
        return None
    # Java writes ? for half of a surrogate pair.
    return value.text().encode(errors="replace") if isinstance(value, Literal) else base64.b64encode(value)


def _bytes_of(value: HeaderValue) -> bytes | None:
    """ByteArrayConverter, which writes nothing else."""
    assert not isinstance(value, Literal)
    return value
