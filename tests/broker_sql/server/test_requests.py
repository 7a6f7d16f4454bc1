"""Paths of requests."""

from __future__ import annotations

import pytest

from broker_sql.server.api.requests import segments_of
from broker_sql.server.errors import ApiError


@pytest.mark.parametrize(
    "target", [b"/status/a%2Fb/", b"http://127.0.0.1:8088/status/a%2Fb", b"HTTPS://sql-1/status/a%2fb"]
)
def test_a_path_may_be_a_whole_url(target: bytes) -> None:
    """If this fails, the Python client `ksql` has no push queries and no inserts."""
    assert segments_of(target) == ("status", "a/b")


def test_a_path_that_is_no_text_is_refused() -> None:
    with pytest.raises(ApiError, match="UTF-8"):
        segments_of(b"/%ff")
