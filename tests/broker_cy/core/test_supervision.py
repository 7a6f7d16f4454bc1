"""Long-lived tasks. If these fail, one defect ends what a broker has to do for as long as it runs."""

from __future__ import annotations

import asyncio

import pytest

from broker_cy.core import supervision
from broker_cy.core.supervision import keep_running


def test_work_that_fails_begins_again(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """If this fails, the first unexpected exception ends heartbeats without a line in the log."""
    monkeypatch.setattr(supervision, "BACKOFF_MS_MIN", 1)
    calls = 0

    async def work() -> None:
        nonlocal calls
        calls += 1
        if calls <= 3:
            raise ValueError(f"defect {calls}")

    async def run() -> None:
        await keep_running(asyncio.get_running_loop(), work, "heartbeats")

    asyncio.run(run())
    assert calls == 4
    assert [record.getMessage() for record in caplog.records] == [
        f"heartbeats failed, and begins again in {seconds} s" for seconds in ("0.001", "0.002", "0.004")
    ]
    assert "defect 3" in caplog.text


def test_a_cancelled_task_ends(caplog: pytest.LogCaptureFixture) -> None:
    """If this fails, a broker does not stop, or its log has a failure at each stop."""

    async def run() -> None:
        task = keep_running(asyncio.get_running_loop(), asyncio.Event().wait, "heartbeats")  # type: ignore[arg-type]
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert task.get_name() == "heartbeats"

    asyncio.run(run())
    assert not caplog.records


def test_work_that_was_sound_begins_again_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, a broker whose heartbeats failed a few times in a month misses its session at the next failure."""
    monkeypatch.setattr(supervision, "BACKOFF_MS_MIN", 1)
    monkeypatch.setattr(supervision, "STEADY_MS", 0)
    told: list[str] = []
    calls = 0

    async def work() -> None:
        nonlocal calls
        calls += 1
        if calls <= 4:
            raise ValueError

    async def run() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: told.append(context["message"]))
        await keep_running(loop, work, "it")

    asyncio.run(run())
    assert told == ["it failed, and begins again in 0.001 s"] * 4
