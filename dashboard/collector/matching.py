"""Filters of records for many users: plain texts are searched for here, regular expressions in a separate process.

Python evaluates an expression such as `(a+)+$` in exponential time and holds its lock meanwhile, so that in the event
loop, or in a thread of it, one user could stop the dashboard for all. The process (match_worker.py) is ended when a
batch takes longer than BATCH_TIMEOUT_S, which is reported.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import marshal
import sys
import time
from array import array
from dataclasses import asdict
from types import TracebackType
from typing import Final

from broker_cy.client.decoded import Decoder
from broker_cy.client.errors import ClientError, Failure
from broker_cy.console.record_filter import RecordFilter
from broker_cy.reporting.numbers import plural
from broker_cy.wire.records import Record
from dashboard.collector.history_pace import Pace

# Share of a core that one reading may take: it pauses between pieces of work of this length.
SHARE: Final = 0.5
_WORK_S: Final = 0.02
# Time for the records of one batch, of 4,000 records at most.
BATCH_TIMEOUT_S: Final = 5.0
# The process imports the filters first.
START_TIMEOUT_S: Final = 20.0
# Processes at once, over all users; each has 25 MB.
WORKERS_MAX: Final = 4
# Bytes of records that are sent to the process at once.
BATCH_BYTES_MAX: Final = 8 << 20

_running: set[Matcher] = set()


def has_expression(wanted: RecordFilter) -> bool:
    """Return whether a part of the filter is a regular expression."""
    header = wanted.header.partition("=")[2].strip()
    return any(text.startswith("~") for text in (wanted.key, wanted.value, header))


class Matcher:
    """Returns the records that match a filter, at a limited pace: `match` is a broker_cy.console.scan.Match.

    Close it, or use it with `async with`; it can be used again afterwards.
    """

    def __init__(self, wanted: RecordFilter, decoder: Decoder | None = None, topic: str = "") -> None:
        """With a decoder, the filter looks at decoded keys and values. Raises ValueError if it is not valid."""
        self._decoder = None if wanted.is_empty else decoder
        self._topic = topic
        self._wanted = wanted
        self._keep = None if has_expression(wanted) else wanted.compile()
        self._pace = Pace(SHARE)
        self._pace.begin()
        self._worked_until_s = time.thread_time()
        self._process: asyncio.subprocess.Process | None = None
        # The answer to a cancelled batch would be taken for that to the next one.
        self._is_clean = True

    async def __aenter__(self) -> Matcher:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def match(self, records: list[Record]) -> list[Record]:
        """Return the matching records. Raises ClientError."""
        looked = records
        if self._decoder is not None:
            looked = [each.record for each in await self._decoder.seen(self._topic, records)]
        found = self._keep(looked) if self._keep is not None else await self._match_outside(looked)
        if self._decoder is not None:
            offsets = {each.offset for each in found}
            found = [record for record in records if record.offset in offsets]
        if time.thread_time() - self._worked_until_s >= _WORK_S:
            await self._pace.pause()
            self._worked_until_s = time.thread_time()
        return found

    async def close(self) -> None:
        process, self._process = self._process, None
        _running.discard(self)
        if process is not None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()

    async def _match_outside(self, records: list[Record]) -> list[Record]:
        found: list[Record] = []
        part: list[Record] = []
        size_bytes = 0
        for record in records:
            part.append(record)
            size_bytes += len(record.key or b"") + len(record.value or b"")
            if size_bytes >= BATCH_BYTES_MAX:
                found += await self._batch(part)
                part, size_bytes = [], 0
        return found + await self._batch(part) if part else found

    async def _batch(self, records: list[Record]) -> list[Record]:
        if not self._is_clean:
            await self.close()
        message = marshal.dumps(
            [(each.key, each.value, [(name, value) for name, value in each.headers]) for each in records]
        )
        process = self._process or await self._start()
        self._is_clean = False
        try:
            async with asyncio.timeout(BATCH_TIMEOUT_S):
                numbers = await self._ask(process, message)
        except TimeoutError:
            await self.close()
            raise ClientError(
                Failure.INVALID,
                f"the regular expression takes more than {BATCH_TIMEOUT_S:g} s for {plural(len(records), 'record')}: "
                "simplify it",
            ) from None
        except (OSError, asyncio.IncompleteReadError):
            await self.close()
            raise ClientError(
                Failure.MALFORMED, "the process that evaluates the regular expression has ended"
            ) from None
        self._is_clean = True
        return [records[number] for number in numbers]

    async def _start(self) -> asyncio.subprocess.Process:
        if len(_running) >= WORKERS_MAX:
            raise ClientError(
                Failure.REFUSED,
                f"{WORKERS_MAX} searches with regular expressions are running, which is the limit: try again later",
            )
        _running.add(self)
        pipe = asyncio.subprocess.PIPE
        try:
            async with asyncio.timeout(START_TIMEOUT_S):
                process = self._process = await asyncio.create_subprocess_exec(
                    sys.executable, "-m", "dashboard.collector.match_worker", stdin=pipe, stdout=pipe
                )
                # An empty batch is answered when everything is imported.
                await self._send(process, json.dumps(asdict(self._wanted)).encode())
                await self._ask(process, marshal.dumps([]))
        except (OSError, TimeoutError, asyncio.IncompleteReadError) as error:
            await self.close()
            raise ClientError(Failure.TIMED_OUT, f"regular expressions cannot be evaluated: {error}") from None
        except BaseException:
            await self.close()
            raise
        return process

    async def _ask(self, process: asyncio.subprocess.Process, message: bytes) -> array[int]:
        await self._send(process, message)
        assert process.stdout is not None
        head = await process.stdout.readexactly(4)
        numbers = array("I")
        numbers.frombytes(await process.stdout.readexactly(int.from_bytes(head, "big")))
        return numbers

    @staticmethod
    async def _send(process: asyncio.subprocess.Process, message: bytes) -> None:
        assert process.stdin is not None
        process.stdin.write(len(message).to_bytes(4, "big") + message)
        await process.stdin.drain()
