"""Requests to Dash's own endpoint."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from dashboard.app import CALLBACK_PATH
from tests.dashboard.server.application import visitor


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[]", b"5", b"{}", b'{"output": "nothing.here", "outputs": [], "inputs": []}', b'{"output": 5}'],
    ids=["empty", "cut", "list", "number", "object", "unknown output", "wrong type"],
)
def test_a_malformed_body_is_refused(body: bytes, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """If this fails, any client can fill the log with tracebacks."""

    async def run() -> tuple[int, str]:
        async with visitor(tmp_path) as client:
            answer = await client.post(CALLBACK_PATH, content=body, headers={"content-type": "application/json"})
            return answer.status_code, answer.json()["error"]

    status, text = asyncio.run(run())
    assert status == 400
    assert text.startswith("the body is not a request of one of the dashboard's pages: ")
    assert [record for record in caplog.records if record.exc_info] == []
