"""Functions between bytes, texts and numbers."""

from __future__ import annotations

import base64
import binascii
import re
import struct
from collections.abc import Callable
from typing import Any, Final

from broker_sql.functions.definitions import Category

BYTES = Category("BYTES")
_ENCODINGS = "hex, utf8, ascii or base64"
_encode = BYTES.scalar(
    "encode",
    "A text of one encoding in another.",
    text="the text",
    input=f"the encoding of the text: {_ENCODINGS}",
    output=f"another encoding: {_ENCODINGS}",
)
_from_bytes = BYTES.scalar("from_bytes", "The text of bytes.", value="the bytes", encoding=_ENCODINGS)
_to_bytes = BYTES.scalar("to_bytes", "The bytes of a text.", value="the text", encoding=_ENCODINGS)
_ORDER = {"value": "the bytes", "order": "BIG_ENDIAN or LITTLE_ENDIAN; BIG_ENDIAN without it"}
_int = BYTES.scalar("int_from_bytes", "The number in 4 bytes.", **_ORDER)
_bigint = BYTES.scalar("bigint_from_bytes", "The number in 8 bytes.", **_ORDER)
_double = BYTES.scalar("double_from_bytes", "The number in 8 bytes, as of IEEE 754.", **_ORDER)
_HEX: Final = re.compile(r"0[xX](?P<prefixed>[0-9a-fA-F]*)|[xX]'(?P<quoted>[0-9a-fA-F]*)'|(?P<plain>[0-9a-fA-F]*)")


def _hex_bytes(text: str) -> bytes:
    """Return the bytes of `1aff`, `0x1aff` and `X'1aff'`; only the second form may have an odd number of digits."""
    found = _HEX.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is not hexadecimal")
    digits: str = found[found.lastgroup or "plain"]
    if found.lastgroup == "prefixed" and len(digits) % 2:
        digits = "0" + digits
    if len(digits) % 2:
        raise ValueError(f"{text!r}: an even number of hexadecimal digits is expected")
    return bytes.fromhex(digits)


def _base64_bytes(text: str) -> bytes:
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4) if "=" not in text else text, validate=True)
    except binascii.Error as error:
        raise ValueError(f"{text!r} is not base64: {error}") from None


def _ascii_text(value: bytes) -> str:
    return value.decode("ascii", "replace")


_DECODERS: Final[dict[str, Callable[[str], bytes]]] = {
    "hex": _hex_bytes,
    "utf8": lambda text: text.encode("utf-8", "replace"),
    "ascii": lambda text: text.encode("ascii", "replace"),
    "base64": _base64_bytes,
}
_ENCODERS: Final[dict[str, Callable[[bytes], str]]] = {
    "hex": lambda value: value.hex().upper(),
    "utf8": lambda value: value.decode("utf-8", "replace"),
    "ascii": _ascii_text,
    "base64": lambda value: base64.b64encode(value).decode("ascii"),
}


def _of(table: dict[str, Callable[[Any], Any]], encoding: str) -> Callable[[Any], Any]:
    found = table.get(encoding.lower())
    if found is None:
        raise ValueError(f"encoding '{encoding}': {_ENCODINGS} is expected")
    return found


@_encode("(text STRING, input STRING, output STRING) STRING", strict=True)
def _(text: str, given: str, wanted: str) -> str:
    value: bytes = _of(_DECODERS, given)(text)
    encoder = _of(_ENCODERS, wanted)
    if given.lower() == wanted.lower():
        raise ValueError(f"ENCODE: input and output have the encoding '{given}': two encodings are expected")
    found: str = encoder(value)
    return found.lower() if wanted.lower() == "hex" else found


@_from_bytes("(value BYTES, encoding STRING) STRING", strict=True)
def _(value: bytes, encoding: str) -> str:
    found: str = _of(_ENCODERS, encoding)(value)
    return found


@_to_bytes("(value STRING, encoding STRING) BYTES", strict=True)
def _(value: str, encoding: str) -> bytes:
    found: bytes = _of(_DECODERS, encoding)(value)
    return found


def _reader(code: str) -> Callable[..., Any]:
    by_order = {"BIG_ENDIAN": struct.Struct(">" + code), "LITTLE_ENDIAN": struct.Struct("<" + code)}
    size = by_order["BIG_ENDIAN"].size

    def read(value: bytes | None, order: str | None = "BIG_ENDIAN") -> Any:
        if value is None or order is None:
            return None
        layout = by_order.get(order.upper())
        if layout is None:
            raise ValueError(f"byte order '{order}': BIG_ENDIAN or LITTLE_ENDIAN is expected")
        if len(value) != size:
            raise ValueError(f"{len(value)} bytes: {size} are expected")
        return layout.unpack(value)[0]

    return read


_int("(value BYTES, [order STRING]) INT")(_reader("i"))
_bigint("(value BYTES, [order STRING]) BIGINT")(_reader("q"))
_double("(value BYTES, [order STRING]) DOUBLE")(_reader("d"))
