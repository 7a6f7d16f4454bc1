"""Runs checks of schemas: short ones on the event loop, long ones in a process of their own, one at a time.

The process starts with the first long check, and ends after a pause without one. A check that takes too long, or that
ends its process, is refused; the process is replaced. Only the checks behind it wait for it.
"""

from __future__ import annotations

import asyncio
import contextlib
import pickle
import sys
from collections.abc import Generator
from typing import Any, Final, TypeVar

from broker_registry.checks import Check, ParsedCache
from broker_registry.errors import Code, RegistryError, invalid_schema
from broker_registry.operations.plan import Ids, Operation, Plan
from broker_registry.schema_types.base import InvalidSchema
from broker_registry.store.state import State

INLINE_LENGTH_MAX: Final = 4_000
"""Characters of a check on the event loop: at most some milliseconds of Python."""
CHECK_S_MAX: Final = 20.0
IDLE_S: Final = 60.0
WAITING_MAX: Final = 256
"""Long checks that wait for the process."""
LENGTH_BYTES: Final = 4
_WORKER: Final = "broker_registry.check_worker"

T = TypeVar("T")


class Checker:
    """See the module. Use it inside one running loop, and close it there."""

    def __init__(self, *, inline_length_max: int = INLINE_LENGTH_MAX, check_s_max: float = CHECK_S_MAX) -> None:
        self._inline_length_max, self._check_s_max = inline_length_max, check_s_max
        self._cache = ParsedCache()
        self._lock = asyncio.Lock()
        self._waiting = 0
        self._process: asyncio.subprocess.Process | None = None
        self._idle: asyncio.TimerHandle | None = None

    async def plan(self, operation: Operation[T], state: State, ids: Ids) -> Plan[T]:
        """Return the plan of an operation. Raises RegistryError."""
        found = operation(state, ids)
        return found if isinstance(found, Plan) else await self.drive(found)

    async def drive(self, steps: Generator[Check, Any, T]) -> T:
        """Run a generator that yields checks, to its result. Raises what it raises."""
        try:
            check = next(steps)
            while True:
                try:
                    result = await self.run(check)
                except InvalidSchema as error:
                    check = steps.throw(error)
                else:
                    check = steps.send(result)
        except StopIteration as end:
            found: T = end.value
            return found

    async def run(self, check: Check) -> Any:
        """Return the result of a check. Raises InvalidSchema, or RegistryError if it could not be made."""
        if check.length <= self._inline_length_max:
            return check.run(self._cache)
        if self._waiting >= WAITING_MAX:
            raise RegistryError(Code.TIMED_OUT, f"{self._waiting:,} large schemas are waiting to be checked")
        self._waiting += 1
        try:
            async with self._lock:
                return await self._run_in_process(check)
        finally:
            self._waiting -= 1

    async def _run_in_process(self, check: Check) -> Any:
        if self._idle is not None:
            self._idle.cancel()
        try:
            async with asyncio.timeout(self._check_s_max):
                answer = await self._ask(pickle.dumps(check))
        except TimeoutError:
            await self._end()
            raise invalid_schema(f"the schema could not be checked within {self._check_s_max:g} s") from None
        except (OSError, asyncio.IncompleteReadError):
            await self._end()
            raise invalid_schema("the check of the schema ended its process") from None
        except BaseException:
            # The answer to this check would be taken for that of the next one.
            await self._end()
            raise
        self._idle = asyncio.get_running_loop().call_later(IDLE_S, self._stop_idle)
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def _ask(self, request: bytes) -> Any:
        process = self._process
        if process is None or process.returncode is not None:
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", _WORKER, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
            )
            self._process = process
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(len(request).to_bytes(LENGTH_BYTES, "big") + request)
        await process.stdin.drain()
        length = int.from_bytes(await process.stdout.readexactly(LENGTH_BYTES), "big")
        return pickle.loads(await process.stdout.readexactly(length))

    def _stop_idle(self) -> None:
        process, self._process = self._process, None
        if process is not None and process.stdin is not None:
            # The worker ends with its input.
            process.stdin.close()

    async def _end(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()

    async def close(self) -> None:
        """End the process."""
        if self._idle is not None:
            self._idle.cancel()
        await self._end()
