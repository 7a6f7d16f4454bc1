"""HTTP routes of the page of records:

POST /reading/STEP  {"cluster", "job"}   stop, resume or repeat a reading, or end it because its page was closed GET
/export?cluster=...&topic=...&...   the records of a request (collector/record_request.py) as JSON lines

An export is streamed: partitions are interleaved, in order within each. It ends when its client leaves. If it ends
early (a bound, a failure, the end of its user's login), its last line is {"incomplete": reason}, which `broker-cy
produce --json-lines` rejects.
"""

from __future__ import annotations

import asyncio
import logging
import time
import weakref
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from re import sub
from typing import TYPE_CHECKING, Any, Final

import orjson
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import Message, Receive, Send
from starlette.types import Scope as ASGIScope

from broker_cy.admin.fetched import Chunk
from broker_cy.admin.metadata import TopicPartition
from broker_cy.admin.records import Span
from broker_cy.client.errors import ClientError, Failure
from broker_cy.client.turns import Turns
from broker_cy.console.record_json import json_line
from broker_cy.console.scan import RECORDS_A_TURN
from broker_cy.http.answers import JsonRequest, json_route, status_of
from broker_cy.reporting.numbers import count, size
from dashboard.collector.hub import ClusterHub
from dashboard.collector.matching import Matcher
from dashboard.collector.record_jobs import RecordJob, partitions_of
from dashboard.collector.record_request import ReadRequest, parse_request
from dashboard.collector.record_view import as_seen
from dashboard.security.roles import Identity, Need, Role, Scope

if TYPE_CHECKING:
    from dashboard.context import Context

_LOG = logging.getLogger(__name__)

# Concurrent exports, of one user and of all.
EXPORTS_OF_USER_MAX: Final = 2
EXPORTS_MAX: Final = 8
# The limits of one export; `broker-cy consume --json` has none.
RECORDS_MAX: Final = 2_000_000
BYTES_MAX: Final = 1 << 30
TIME_S_MAX: Final = 1_800.0
# A client that accepts no data for this long is considered gone.
SEND_TIMEOUT_S: Final = 30.0
# Bytes that are collected before a send.
_PART_BYTES: Final = 64 << 10


def routes(context: Context) -> list[Route]:
    exports = Exports(context)
    steps: dict[str, Callable[[ClusterHub, RecordJob], None]] = {
        "stop": lambda hub, job: job.stop(),
        "resume": lambda hub, job: job.resume(),
        "again": lambda hub, job: job.again(),
        "leave": lambda hub, job: hub.jobs.drop(job, "this reading was ended, because its page was left: read again"),
    }

    async def change(request: JsonRequest) -> dict[str, Any]:
        body = request.body
        if not all(isinstance(body.get(name), str) for name in ("cluster", "job")):
            raise ClientError(Failure.INVALID, "an object with the texts cluster and job is expected")
        step = steps.get(request.path["step"])
        if step is None:
            raise ClientError(Failure.INVALID, f"unknown step; known: {', '.join(steps)}")
        hub = context.hub(body["cluster"])
        step(hub, hub.jobs.of(body["job"], context.identity()))
        return {}

    return [json_route("/reading/{step}", change), Route("/export", exports.serve, methods=["GET"])]


class _Place:
    """A place among the running exports, which is taken until it is released."""

    def __init__(self, running: Counter[str], user: str) -> None:
        self._running = running
        self._user = user
        self._is_taken = True
        running[user] += 1

    def release(self) -> None:
        """Give the place back; only the first call does."""
        if not self._is_taken:
            return
        self._is_taken = False
        self._running[self._user] -= 1
        if self._running[self._user] == 0:
            del self._running[self._user]


class _Stream(StreamingResponse):
    """A response to a client that may disconnect or stop reading. It releases the place of its export."""

    def __init__(self, lines: AsyncGenerator[bytes, None], place: _Place, headers: Mapping[str, str]) -> None:
        super().__init__(lines, media_type="application/x-ndjson", headers=headers)
        self._place = place
        # This covers a response that is never sent.
        weakref.finalize(self, place.release).atexit = False

    async def __call__(self, scope: ASGIScope, receive: Receive, send: Send) -> None:
        async def timed_send(message: Message) -> None:
            async with asyncio.timeout(SEND_TIMEOUT_S):
                await send(message)

        try:
            await super().__call__(scope, receive, timed_send)
        except TimeoutError:
            # The server closes the connection of an incomplete response, so that the client notices.
            _LOG.info("an export was ended: its client took nothing for %g s", SEND_TIMEOUT_S)
        finally:
            try:
                # If the client disconnects while a part is sent, the generator stays suspended.
                if isinstance(self.body_iterator, AsyncGenerator):
                    await self.body_iterator.aclose()
            finally:
                # This is not in the generator: a generator that was never started does not run its `finally`.
                self._place.release()


class Exports:
    """The exports of one dashboard."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._running: Counter[str] = Counter()

    async def serve(self, request: Request) -> Response:
        query = {name: value for name, value in request.query_params.items() if value}
        try:
            identity = self._context.identity()
            cluster, topic = query.get("cluster", ""), query.get("topic", "")
            if not cluster or not topic:
                raise ClientError(Failure.INVALID, "cluster and topic are expected")
            reason = self._context.security.check(identity, Need(Role.VIEWER, cluster, (topic,), ()), act="export")
            if reason:
                raise ClientError(Failure.REFUSED, reason)
            hub = self._context.hub(cluster)
            wanted = self._request(hub, identity, topic, query)
            if request.method == "HEAD":
                return Response()
            place = self._take(identity)
        except ClientError as error:
            return _refusal(error)
        try:
            return await self._started(hub, identity, wanted, place)
        except BaseException as error:
            place.release()
            if isinstance(error, ClientError):
                return _refusal(error)
            raise

    async def _started(self, hub: ClusterHub, identity: Identity, wanted: ReadRequest, place: _Place) -> Response:
        """Return the response, which then owns the place. Raises ClientError."""
        topic = wanted.topic
        keys = partitions_of(wanted, await hub.session.client.records.partitions(topic))
        spans = await hub.session.client.records.spans(keys, wanted.start, isolation=wanted.isolation)
        self._context.security.audit.note(
            user=identity.name,
            address=identity.address,
            cluster=hub.name,
            act="export",
            subject=topic,
            # Filters may have contents of records.
            result=f"started, {count(sum(span.end - span.start for span in spans.values()))} offsets",
        )
        name = sub(r"[^A-Za-z0-9._-]", "_", f"{topic}.jsonl")
        return _Stream(
            self._lines(hub, identity, wanted, spans),
            place,
            headers={"Content-Disposition": f'attachment; filename="{name}"'},
        )

    @staticmethod
    def _request(hub: ClusterHub, identity: Identity, topic: str, query: dict[str, str]) -> ReadRequest:
        """Return the export for the request. Raises ClientError."""
        wanted, problems = parse_request(topic, {name: value for name, value in query.items() if name != "live"})
        if wanted is None:
            name, problem = next(iter(problems.items()))
            raise ClientError(Failure.INVALID, f"{name}: {problem}")
        if wanted.is_live:
            raise ClientError(Failure.INVALID, "from=end: there is nothing to export; give an earlier position")
        if hub.masking is not None and not wanted.wanted.is_empty:
            hidden = hub.masking.may_search(identity.scope, topic, wanted.wanted)
            if hidden:
                raise ClientError(Failure.REFUSED, hidden)
        return wanted

    def _take(self, identity: Identity) -> _Place:
        """Take a place for an export, before anything is awaited. Raises ClientError if there is none."""
        if self._running[identity.name] >= EXPORTS_OF_USER_MAX:
            raise ClientError(Failure.REFUSED, f"you have {EXPORTS_OF_USER_MAX} exports running, which is the limit")
        if self._running.total() >= EXPORTS_MAX:
            raise ClientError(
                Failure.REFUSED, f"{EXPORTS_MAX} exports are running, which is the limit: try again later"
            )
        return _Place(self._running, identity.name)

    async def _lines(
        self, hub: ClusterHub, identity: Identity, wanted: ReadRequest, spans: dict[TopicPartition, Span]
    ) -> AsyncGenerator[bytes, None]:
        export = _Export(hub, identity.scope, wanted, lambda: self._context.security.current(identity))
        try:
            async with aclosing(export.parts(spans)) as parts:
                async for part in parts:
                    yield part
        except ClientError as error:
            yield _incomplete(str(error))


class _Export:
    """One export. `ended` returns why its user may no longer read; empty if the login is valid."""

    def __init__(self, hub: ClusterHub, scope: Scope, wanted: ReadRequest, ended: Callable[[], str]) -> None:
        self._hub = hub
        self._scope = scope
        self._wanted = wanted
        self._ended = ended
        self.records = 0
        self.bytes = 0
        self._until_s = time.monotonic() + TIME_S_MAX

    async def parts(self, spans: dict[TopicPartition, Span]) -> AsyncGenerator[bytes, None]:
        """Yield chunks of lines. Raises ClientError."""
        wanted, decoder = self._wanted, self._hub.session.decoder
        needle = wanted.wanted.needle(is_decoded=decoder is not None)
        starts = {key: span.start for key, span in spans.items() if span.start < span.end}
        ends = {key: spans[key].end for key in starts}
        async with (
            Matcher(wanted.wanted, decoder, wanted.topic) as matcher,
            self._hub.session.client.records.reader(
                starts, ends=ends, isolation=wanted.isolation, containing=needle
            ) as reader,
        ):
            async for chunk in reader:
                async for part in self._of_chunk(matcher, chunk):
                    ended = self._ended()
                    if ended:
                        yield _incomplete(ended)
                        return
                    yield part
                problem = self._problem(chunk)
                if problem:
                    yield _incomplete(problem)
                    return

    async def _of_chunk(self, matcher: Matcher, chunk: Chunk) -> AsyncGenerator[bytes, None]:
        turns = Turns()
        part = bytearray()
        for at in range(0, len(chunk.records), RECORDS_A_TURN):
            for record in await matcher.match(chunk.records[at : at + RECORDS_A_TURN]):
                if self.records >= RECORDS_MAX or self.bytes >= BYTES_MAX:
                    break
                seen = await as_seen(self._hub.masking, self._scope, self._wanted.topic, record)
                line = json_line(chunk.partition, seen)
                part += line
                self.records += 1
                self.bytes += len(line)
                if len(part) >= _PART_BYTES:
                    yield bytes(part)
                    part.clear()
                await turns.pause()
        if part:
            yield bytes(part)

    def _problem(self, chunk: Chunk) -> str:
        """Return why the export must end after this chunk; empty if it goes on."""
        # Perhaps nothing has matched for a long time.
        ended = self._ended()
        if ended:
            return ended
        if self.records >= RECORDS_MAX or self.bytes >= BYTES_MAX:
            return f"an export has at most {count(RECORDS_MAX)} records and {size(BYTES_MAX)}"
        if time.monotonic() > self._until_s:
            return f"it took more than {TIME_S_MAX:,.0f} s"
        if chunk.damage:
            return f"partition {chunk.partition.partition}: {chunk.damage[0]}"
        return ""


def _refusal(error: ClientError) -> Response:
    return PlainTextResponse(f"{error}\n", status_of(error))


def _incomplete(reason: str) -> bytes:
    return orjson.dumps({"incomplete": reason}) + b"\n"
