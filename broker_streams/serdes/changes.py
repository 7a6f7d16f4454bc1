"""Changes of rows in the repartition topic of a grouped table (KIP-904; Kafka's ChangedSerializer).

    old value, 0                                        a row left its group
    new value, 1                                        a row came into its group
    size of the new value, new value, old value, 2      a row changed within its group
    the same three with one byte in front of the last: 3, 4 and 5

The size is a zigzag varint. The byte in front of 3, 4 and 5 is 1 for the latest change of a row and 0 for an older one;
Kafka 4.3.1 reads these forms and does not write them.
"""

from __future__ import annotations

from typing import Any, Final

from broker_streams.records import NO_HEADERS, Change, Headers
from broker_streams.serdes import Serde, SerdeError

OLD: Final = 0
NEW: Final = 1
BOTH: Final = 2
# Added to a form that says whether the change is the latest one.
MARKED: Final = 3


class ChangeSerde:
    """`inner` None: the application's default for values, which a task sets."""

    def __init__(self, inner: Serde | None) -> None:
        self.inner = inner

    @property
    def name(self) -> str:
        return f"CHANGE({'' if self.inner is None else self.inner.name})"

    def with_defaults(self, key_serde: Serde | None, value_serde: Serde | None) -> ChangeSerde:
        return ChangeSerde(self.inner or value_serde)

    def _inner(self) -> Serde:
        if self.inner is None:
            raise SerdeError("rows of a grouped table have no serde; give one, or set default.value.serde")
        return self.inner

    def serialize(self, topic: str, value: Any, headers: Headers = NO_HEADERS) -> bytes | None:
        """Raises SerdeError: the change has neither an old nor a new value."""
        inner = self._inner()
        new = None if value.new is None else inner.serialize(topic, value.new, headers) or b""
        old = None if value.old is None else inner.serialize(topic, value.old, headers) or b""
        if new is not None and old is not None:
            return b"%b%b%b\x02" % (_varint(len(new)), new, old)
        if new is not None:
            return new + b"\x01"
        if old is not None:
            return old + b"\x00"
        raise SerdeError(f"{topic}: a change without an old and a new value cannot be written")

    def deserialize(self, topic: str, data: bytes | None, headers: Headers = NO_HEADERS) -> Any:
        """Raises SerdeError: the bytes are no change."""
        if not data:
            raise SerdeError(f"{topic}: no bytes are no change of a row")
        form, end, is_latest = data[-1], len(data) - 1, True
        if form >= MARKED:
            form -= MARKED
            end -= 1
            if end < 0 or data[end] > 1:
                raise SerdeError(f"{topic}: a change of form {data[-1]} needs 0 or 1 in front of it")
            is_latest = data[end] == 1
        inner = self._inner()
        if form == OLD:
            return Change(None, inner.deserialize(topic, data[:end], headers), is_latest)
        if form == NEW:
            return Change(inner.deserialize(topic, data[:end], headers), None, is_latest)
        if form != BOTH:
            raise SerdeError(f"{topic}: a change has form {data[-1]}; 0 to 5 are known")
        size, at = _read_varint(topic, data, end)
        middle = at + size
        if size < 0 or middle > end:
            raise SerdeError(f"{topic}: the new value of a change has {size} bytes, but {end - at} follow")
        new = inner.deserialize(topic, data[at:middle], headers)
        return Change(new, inner.deserialize(topic, data[middle:end], headers), is_latest)


def _varint(value: int) -> bytes:
    """A number of at least 0 as zigzag varint."""
    value <<= 1
    found = bytearray()
    while value > 127:
        found.append(value & 127 | 128)
        value >>= 7
    found.append(value)
    return bytes(found)


def _read_varint(topic: str, data: bytes, end: int) -> tuple[int, int]:
    """The number at the begin of `data`, and the place after it. An int32 has at most five bytes."""
    found = shift = 0
    for at in range(min(end, 5)):
        found |= (data[at] & 127) << shift
        shift += 7
        if data[at] < 128:
            return (found >> 1) ^ -(found & 1), at + 1
    raise SerdeError(f"{topic}: the size of a change's new value does not end")
