"""Functions of URLs, which have the syntax of java.net.URI (RFC 2396, with all letters of Unicode)."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import quote_plus, unquote_plus

from broker_sql.functions.definitions import Category

URL = Category("URL")
_URI: Final = re.compile(
    r"(?:(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*):)?(?:(?P<opaque>(?<=:)[^/#?][^#]*)|"
    r"(?://(?P<authority>[^/?#]*))?(?P<path>[^?#]*)(?:\?(?P<query>[^#]*))?)(?:#(?P<fragment>.*))?",
    re.DOTALL,
)
_ILLEGAL: Final = re.compile(r"[\x00-\x20\x7f<>\"{}|\\^`\[\]\s]|%(?![0-9a-fA-F]{2})")
_HOST: Final = re.compile(
    r"(?:[^@]*@)?(?P<host>\[[0-9a-fA-F:.]+(?:%\w+)?\]|(?:[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?\.)*"
    r"[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?\.?)(?::(?P<port>\d*))?"
)
_PERCENT: Final = re.compile(r"(?:%[0-9a-fA-F]{2})+")
_Parts = dict[str, str | None]


def _parsed(url: str) -> _Parts:
    """Return the parts, still encoded. Raises ValueError."""
    found = _URI.fullmatch(url)
    if found is None or not url:
        raise ValueError(f"{url!r} is not a URL")
    parts = found.groupdict()
    for name, part in parts.items():
        checked = part if part is None or name != "authority" else re.sub(r"\[[0-9a-fA-F:.%\w]*\]", "", part)
        if checked is not None and _ILLEGAL.search(checked):
            raise ValueError(f"{url!r} is not a URL")
    return parts


def _decoded(part: str | None) -> str | None:
    """Return the part with the characters in place of `%20`, where `+` stays."""
    if part is None or "%" not in part:
        return part
    return _PERCENT.sub(lambda found: bytes.fromhex(found[0].replace("%", "")).decode("utf-8", "replace"), part)


def _host(parts: _Parts) -> re.Match[str] | None:
    authority = parts["authority"]
    return _HOST.fullmatch(authority) if authority else None


def _define(name: str, description: str) -> None:
    function = URL.scalar(f"url_extract_{name}", description, url="the URL")

    @function("(url STRING) STRING", strict=True)
    def _(url: str) -> str | None:
        return _decoded(_parsed(url)[name])


_define("fragment", "The fragment, decoded; NULL if there is none.")
_define("path", "The path, decoded; an empty text if there is none.")
_define("query", "The query, decoded; NULL if there is none.")
_protocol = URL.scalar("url_extract_protocol", "The scheme; NULL if there is none.", url="the URL")
_host_of = URL.scalar("url_extract_host", "The host; NULL if there is none.", url="the URL")
_port = URL.scalar("url_extract_port", "The port; NULL if there is none.", url="the URL")
_parameter = URL.scalar(
    "url_extract_parameter",
    "The value of a parameter of the query, decoded; NULL if there is none.",
    url="the URL",
    name="the name of the parameter, not encoded",
)
_encode = URL.scalar("url_encode_param", "The text, encoded as a value in a query.", text="the text")
_decode = URL.scalar("url_decode_param", "The text of an encoded value in a query.", text="the encoded value")


@_protocol("(url STRING) STRING", strict=True)
def _(url: str) -> str | None:
    return _parsed(url)["scheme"]


@_host_of("(url STRING) STRING", strict=True)
def _(url: str) -> str | None:
    found = _host(_parsed(url))
    return found["host"] if found else None


@_port("(url STRING) INT", strict=True)
def _(url: str) -> int | None:
    found = _host(_parsed(url))
    return int(found["port"]) if found and found["port"] else None


@_parameter("(url STRING, name STRING) STRING", strict=True)
def _(url: str, name: str) -> str | None:
    query = _parsed(url)["query"]
    for each in (query or "").split("&"):
        key, _, value = each.partition("=")
        if key and unquote_plus(key) == name:
            return unquote_plus(value)
    return None


@_encode("(text STRING) STRING", strict=True)
def _(text: str) -> str:
    return quote_plus(text, safe="*").replace("~", "%7E")


@_decode("(text STRING) STRING", strict=True)
def _(text: str) -> str:
    if re.search(r"%(?![0-9a-fA-F]{2})", text):
        raise ValueError(f"{text!r}: two hexadecimal digits are expected after %")
    return unquote_plus(text)
