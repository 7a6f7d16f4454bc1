"""Formats in C are those of their serdes, with the same errors."""

from __future__ import annotations

from typing import Any

import pytest

from broker_streams.kernel.formats import read, write
from broker_streams.serdes import Serde
from broker_streams.serdes.primitives import BYTES, INTEGER, LONG, STRING

VALUES: list[Any] = [
    None, "", "a", "größe", "\ud800", "x" * 300, 0, 1, -1, 2**63 - 1, -(2**63), 2**63, -(2**63) - 1, True, 1.5,
    b"", b"\x00\xff", bytearray(b"ab"), memoryview(b"cd"), object,
]  # fmt: skip
DATA = [
    None, b"", b"a", "größe".encode(), b"\xff", b"\xed\xa0\x80", b"\xed\xa0", b"a\xe2\x82", bytes(8), b"\xff" * 8,
    b"\x80" + bytes(7), bytes(7), bytes(9),
]  # fmt: skip


def result(call: Any, *arguments: Any) -> Any:
    try:
        found = call(*arguments)
    except Exception as error:
        return type(error), str(error)
    return type(found), found


@pytest.mark.parametrize("serde", [STRING, LONG, BYTES, INTEGER], ids=lambda serde: serde.name)
def test_formats_are_those_of_their_serdes(serde: Serde) -> None:
    """If this fails, sources or sinks of built-in formats read or write something else than stores do."""
    for value in VALUES:
        assert result(write, serde, "topic", value, ()) == result(serde.serialize, "topic", value, ())
    for data in DATA:
        assert result(read, serde, "topic", data, ()) == result(serde.deserialize, "topic", data, ())


class Quoted(type(STRING)):  # type: ignore[misc]
    """A format of a user, on top of a built-in one."""

    def serialize(self, topic: str, value: Any, headers: Any = ()) -> bytes | None:
        return f"'{value}'".encode()


def test_a_subclass_is_called() -> None:
    """If this fails, a user's format that extends a built-in one is passed over."""
    assert write(Quoted(), "topic", "a", ()) == b"'a'"
