"""Transforms and predicates of one record; tests/broker_mirror/test_like_mirror_maker.py compares random ones with
Kafka's.
"""

from __future__ import annotations

import re

import pytest

from broker_mirror.transforms.chain import (
    Chain,
    Message,
    Predicate,
    Stage,
    drop_headers,
    has_header_key,
    insert_header,
    leave_out,
    record_is_tombstone,
    topic_name_matches,
)
from broker_mirror.transforms.literals import Literal

MESSAGE = Message("A.t", b"k", b"v", (("h", b"1"), ("h", None), ("n", b"")), 7)


def test_insert_header_adds_at_the_end() -> None:
    """If this fails, a consumer that takes the last header of a name gets an older one."""
    found = Chain((Stage(insert_header("h", Literal("INT8", 5))),), as_text=True).apply(MESSAGE)
    assert found == MESSAGE._replace(headers=(*MESSAGE.headers, ("h", Literal("INT8", 5))))


def test_drop_headers_removes_all_of_a_name() -> None:
    """If this fails, a header that must not leave the cluster does."""
    found = Chain((Stage(drop_headers(["h", "x"])),)).apply(MESSAGE)
    assert found == MESSAGE._replace(headers=(("n", b""),))


@pytest.mark.parametrize(
    ("predicate", "message", "holds"),
    [
        (topic_name_matches(re.compile("A[.]t")), MESSAGE, True),
        (topic_name_matches(re.compile("A[.]")), MESSAGE, False),
        (has_header_key("h"), MESSAGE, True),
        (has_header_key("x"), MESSAGE, False),
        (record_is_tombstone, MESSAGE, False),
        (record_is_tombstone, MESSAGE._replace(value=b""), False),
        (record_is_tombstone, MESSAGE._replace(value=None), True),
    ],
)
def test_a_filter_leaves_out_what_its_predicate_takes(predicate: Predicate, message: Message, holds: bool) -> None:
    """If this fails, records are copied that were to be left out, or the other way round."""
    assert (Chain((Stage(leave_out, predicate),)).apply(message) is None) is holds
    assert (Chain((Stage(leave_out, predicate, negate=True),)).apply(message) is None) is not holds


def test_bytes_and_text_of_headers() -> None:
    """If this fails, the header converter has no effect."""
    assert Chain(()).written(MESSAGE.headers) == (("h", b"1"), ("h", None), ("n", b""))
    as_text = Chain((), as_text=True)
    assert as_text.written(MESSAGE.headers) == (("h", b"MQ=="), ("h", None), ("n", b""))
    assert as_text.written((("x", Literal("STRING", "é\ud800")),)) == (("x", "é?".encode()),)
