"""Long-lived tasks: work that a defect interrupts must not end for good, and not unnoticed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Final

# Between a failure and the next attempt: short at first, because a heartbeat must not miss its session, and doubled
# with each failure, so that a lasting one takes neither the loop nor the log.
AGAIN_S: Final = 0.1
AGAIN_S_MAX: Final = 10.0
# Work that has run for this time before it failed restarts after the shortest pause.
SOUND_S: Final = 60.0


def keep_running(
    loop: asyncio.AbstractEventLoop, work: Callable[[], Coroutine[Any, Any, None]], name: str
) -> asyncio.Task[None]:
    """Run `work()` as a task until it returns, or until the task is cancelled. Any other exception is a defect: the
    loop's exception handler gets it (by default it logs the traceback), and `work()` is called again after a while.

    `name` is that of the task, and names the failed work in the log. The work itself must handle expected errors.
    """
    return loop.create_task(_run(loop, work, name), name=name)


async def _run(loop: asyncio.AbstractEventLoop, work: Callable[[], Coroutine[Any, Any, None]], name: str) -> None:
    again_s = AGAIN_S
    while True:
        began_s = loop.time()
        try:
            await work()
            return
        except Exception as error:
            if loop.time() - began_s >= SOUND_S:
                again_s = AGAIN_S
            loop.call_exception_handler(
                {"message": f"{name} failed, and begins again in {again_s:g} s", "exception": error}
            )
        await asyncio.sleep(again_s)
        again_s = min(2 * again_s, AGAIN_S_MAX)
