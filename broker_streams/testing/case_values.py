"""Records and rows as files of tests have them: values of JSON, with windows beside keys.

    {key: ann, window: [0, 60000], value: {item: tea}, at: 1000, headers: {trace: "7"}}

Values that JSON does not have become text: bytes as UTF-8, a UUID or a decimal as its usual text, others as Python
shows them. Bytes that are not UTF-8 are !!binary.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Mapping
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any, Final

from broker_streams.records import Headers, ValueAndTimestamp, VersionedRecord, Window, Windowed
from broker_streams.serdes import Serde
from broker_streams.serdes.primitives import BytesSerde, UuidSerde
from broker_streams.serdes.windowed import WindowedSerde

Shown = dict[str, Any]
"""A record or row: key, window, value, at, headers. Those that do not apply are absent."""
# The end of a window whose size is not known.
_LONGEST: Final = (1 << 63) - 1


def plain(value: Any) -> Any:
    """A value of Python as a file shows it."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return value
    if isinstance(value, Mapping):
        return {key if isinstance(key, str) else str(plain(key)): plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    if isinstance(value, uuid.UUID | Decimal):
        return str(value)
    if isinstance(value, date | datetime | time):
        return value.isoformat()
    return repr(value)


def shown(key: Any, value: Any, at_ms: int | None = None, headers: Headers = ()) -> Shown:
    """A record of a topic, or a row of a store."""
    found: Shown = {}
    if isinstance(key, Windowed):
        start_ms, end_ms = key.window
        found["key"], found["window"] = plain(key.key), [start_ms] if end_ms == _LONGEST else [start_ms, end_ms]
    else:
        found["key"] = plain(key)
    if isinstance(value, ValueAndTimestamp):
        value, at_ms = value
    elif isinstance(value, VersionedRecord):
        value, at_ms = value.value, value.timestamp
    found["value"] = plain(value)
    if at_ms is not None:
        found["at"] = at_ms
    if headers:
        found["headers"] = headers_shown(headers)
    return found


def headers_shown(headers: Headers) -> Any:
    """A mapping, or a list of pairs if a name is repeated."""
    pairs = [[name, plain(value)] for name, value in headers]
    names = {name for name, _ in headers}
    return dict(pairs) if len(names) == len(pairs) else pairs


def headers_of(given: Any) -> Headers:
    """Headers of a file. Raises ValueError."""
    pairs: Iterable[Any] = given.items() if isinstance(given, Mapping) else given
    if not isinstance(given, Mapping | list) or not all(
        isinstance(each, list | tuple) and len(each) == 2 and isinstance(each[0], str) for each in pairs
    ):
        raise ValueError(f"headers are {given!r}; a mapping of texts, or a list of pairs, is allowed")
    pairs = given.items() if isinstance(given, Mapping) else given
    return tuple((name, _header_bytes(name, value)) for name, value in pairs)


def _header_bytes(name: str, value: Any) -> bytes | None:
    if value is None or isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return value.encode()
    raise ValueError(f"header {name} is {value!r}; a text is allowed")


def typed(serde: Serde, value: Any, window: Any = None) -> Any:
    """A value of a file as the serde takes it. Raises ValueError."""
    if isinstance(serde, WindowedSerde):
        if serde.inner is None or value is None:
            return None
        return Windowed(typed(serde.inner, value), window_of(window))
    if window is not None:
        raise ValueError(f"a window is given, and keys have the serde {getattr(serde, 'name', serde)}")
    if isinstance(serde, BytesSerde) and isinstance(value, str):
        return value.encode()
    if isinstance(serde, UuidSerde) and isinstance(value, str):
        return uuid.UUID(value)
    return value


def window_of(given: Any) -> Window:
    """A window of a file: its start, and its end if it is known. Raises ValueError."""
    numbers = isinstance(given, list) and all(isinstance(each, int) for each in given)
    if not numbers or len(given) not in (1, 2):
        raise ValueError(f"the window is {given!r}; [start, end] in ms is expected")
    return Window(given[0], given[1] if len(given) == 2 else _LONGEST)


def canonical(value: Any) -> str:
    """A text that is equal for equal values: 1 and 1.0 are, 1 and true are not."""
    return json.dumps(_canonical(value), sort_keys=True, ensure_ascii=False)


def _canonical(value: Any) -> Any:
    value = plain(value)
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, bytes):
        return {"!!binary": value.hex()}
    if isinstance(value, dict):
        return {key: _canonical(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_canonical(each) for each in value]
    return value
