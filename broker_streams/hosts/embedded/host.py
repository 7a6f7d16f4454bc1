"""Runs an application in this process, on asyncio.

    host = EmbeddedHost(client, topology, HostSettings.of(config))
    await host.run()        until `host.stop()`, or an error of a task

Two coroutines share the tasks under a lock. One is the member of the application's group (KIP-1071): it sends
heartbeats, and gives up tasks between two steps of the other. The other one reads chunks, lets tasks process them, and
begins commits. A step is short, so heartbeats are never late; reading waits outside of the lock. A commit goes on by
itself: the tasks process what comes next, and the next commit begins after it.

With exactly_once_v2 nothing of a task counts before its transaction is committed. A member that was fenced forgets its
tasks and joins again, and the next owner begins at the last commit.

The file is longer than others: membership and steps change the same tasks, in an order that is seen only where they
stand together.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final
from uuid import uuid4

from broker_cy.admin import AdminClient, ClientError
from broker_cy.admin.fetched import Chunk
from broker_cy.admin.offsets import Isolation
from broker_cy.client.errors import Failure
from broker_cy.client.group_member import MemberSettings, Revoke, Send, State
from broker_cy.client.streams_member import Endpoint, Role, Status, StreamsMember, StreamsSettings
from broker_cy.client.streams_member import Task as Assigned
from broker_cy.core.errors import ErrorCode
from broker_streams.dsl.topology import Topology
from broker_streams.hosts.announced import announced
from broker_streams.hosts.connecting import connected
from broker_streams.hosts.embedded.committing import Committing
from broker_streams.hosts.embedded.global_stores import GlobalStores
from broker_streams.hosts.embedded.group_news import NO_STREAMS_GROUPS, GroupNews
from broker_streams.hosts.embedded.queries import Queries
from broker_streams.hosts.embedded.reading import Reading
from broker_streams.hosts.embedded.refusals import Lost, Retried
from broker_streams.hosts.embedded.states import States
from broker_streams.hosts.embedded.tasks import Tasks
from broker_streams.hosts.embedded.topics import Topics
from broker_streams.hosts.embedded.writer import Writer
from broker_streams.hosts.measures import Life, Measures
from broker_streams.hosts.measures import State as InstanceState
from broker_streams.hosts.settings import HostSettings
from broker_streams.hosts.task_timeout import COMMIT, GLOBAL_STORES, INPUTS, MEMBERSHIP, TaskTimeout
from broker_streams.kernel.errors import StreamsError
from broker_streams.plan.topology import Source, TopologyError
from broker_streams.plan.topology import Topology as Plan
from broker_streams.registry.ahead import Ahead

_LOG = logging.getLogger("broker_streams")
# Records of one step, after which heartbeats have their turn.
STEP_RECORDS: Final = 1_000
# The longest wait of an idle host for a punctuation or for news of the group.
IDLE_S: Final = 0.1
# The same with a task whose records wait for those of another partition (max.task.idle.ms).
WAITING_S: Final = 0.01
# Between two looks at the partitions of topics, besides those at each epoch of the group: the broker that answered may
# not have known new ones yet.
TOPICS_S: Final = 10.0


class EmbeddedHost:
    """One instance. `statuses` says why the group waits; `committed` counts commits, and `processed` records.

    While `is_paused`, tasks process nothing. `ends_all` is asked about an error that ends the instance, while it is
    still a member: whether all instances of the application end. `life` has the state, `measures` the counts, and
    `queries` the stores. `after_commit` are called after a commit behind which nothing was processed: all that stores
    hold is committed then. `settle` asks for such a commit.
    """

    def __init__(
        self,
        client: AdminClient,
        topology: Topology | Plan,
        settings: HostSettings,
        *,
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        """Raises TopologyError: a pattern of topics, which streams groups of Kafka 4.3 do not know."""
        plan = topology.plan if isinstance(topology, Topology) else topology
        for node in plan.nodes:
            if isinstance(node, Source) and node.pattern is not None:
                raise TopologyError(f"source {node.name} reads topics by the pattern {node.pattern}; name them instead")
        self._client, self._topology, self._settings, self._now_ms = client, plan, settings, now_ms
        self.life, self.measures = Life(now_ms), Measures()
        self.is_paused = False
        self.ends_all: Callable[[Exception], bool] = lambda error: False
        self.process_id = process_id = str(uuid4())
        self.member = StreamsMember(
            MemberSettings(
                settings.application_id,
                rebalance_timeout_ms=settings.rebalance_timeout_ms,
            ),
            StreamsSettings(
                announced(
                    plan,
                    settings.application_id,
                    replication_factor=settings.replication_factor,
                    topic_config=settings.topic_config,
                    additional_retention_ms=settings.additional_retention_ms,
                ),
                process_id,
                settings.rack,
                _endpoint(settings.endpoint),
                settings.client_tags,
            ),
            lambda: str(uuid4()),
        )
        self._link = client.coordinator_link(self.member)
        self._ahead = Ahead(plan, settings.task)
        self._timeout = TaskTimeout(settings.task_timeout_ms)
        self._writer = Writer(client, settings, f"{settings.application_id}-{process_id}-1", self._timeout)
        # Set when there is something to look at: a chunk, the end of a commit, other tasks.
        self._news = asyncio.Event()
        self._topics = Topics(client, plan, settings.application_id)
        isolation = Isolation.READ_COMMITTED if settings.reads_committed else Isolation.READ_UNCOMMITTED
        self._turn = asyncio.Lock()
        self._reading = Reading(client, isolation, self._ahead, self._news.set)
        states = States(settings, now_ms)
        self._globals = GlobalStores(client, plan, states, isolation, now_ms, self._turn)
        self.tasks = Tasks(
            client, plan, settings, self._topics.partitions, self._globals.stores, states, now_ms, self._timeout
        )
        self._committing = Committing(
            self._writer, settings, self.tasks, self.member, self.measures, self._timeout, self._news.set
        )
        self.queries = Queries(self, self._globals.stores)
        self.processed = 0
        self._stopping = asyncio.Event()
        self._taken: frozenset[Assigned] = frozenset()
        # Whether the active tasks have to look for their positions again.
        self._begins_again = False
        # The epoch of the group in which source topics were looked at.
        self._generation = 0
        # Whether the last step processed something, and whether a task processed as many records as one step allows.
        self._is_busy = self._is_behind = False
        self._purge_due_s = self._topics_due_s = 0.0

    @property
    def statuses(self) -> tuple[Status, ...]:
        return self.member.statuses

    @property
    def plan(self) -> Plan:
        return self._topology

    @property
    def client(self) -> AdminClient:
        return self._client

    @property
    def settings(self) -> HostSettings:
        return self._settings

    def partitions_of(self, topic: str) -> int:
        """The partitions of a topic at the last look; 0: it was not there."""
        return self._topics.partitions(topic)

    @property
    def is_settled(self) -> bool:
        """Whether all that stores hold was committed, as long as the caller does not wait for anything."""
        return not (self._committing.has_changes or self._committing.is_running or self._turn.locked())

    @property
    def committed(self) -> int:
        return self._committing.count

    @property
    def after_commit(self) -> list[Callable[[], None]]:
        return self._committing.after_commit

    def settle(self) -> None:
        """Let the tasks wait for the next commit, so that `after_commit` are called."""
        self._committing.settle()

    def stop(self) -> None:
        """Let `run` commit, leave the group and return."""
        self.life.enter(InstanceState.PENDING_SHUTDOWN)
        self._stopping.set()

    async def run(self) -> None:
        """Raises StreamsError: a task cannot go on. ClientError: the cluster refuses the application."""
        self.life.enter(InstanceState.REBALANCING)
        try:
            await self._run()
        except Exception as error:
            self.life.enter(InstanceState.ERROR, error)
            raise
        finally:
            if self.life.state is not InstanceState.ERROR:
                self.life.enter(InstanceState.NOT_RUNNING)

    async def _run(self) -> None:
        if not await connected(self._client, self._timeout, self._stopping) or not await self._is_prepared():
            return
        await self._topics.look()
        followed = []
        if self._globals:
            try:
                await self._globals.fill()
            except BaseException:
                self._globals.close(discard=True)
                raise
            followed.append(asyncio.create_task(self._follow_globals()))
        followed += [asyncio.create_task(self._be_member()), asyncio.create_task(self._work())]
        followed.append(asyncio.create_task(self.tasks.states.look_after(self.tasks.is_up)))
        stopping = asyncio.create_task(self._stopping.wait())
        is_clean = False
        try:
            await asyncio.wait([stopping, *followed], return_when=asyncio.FIRST_COMPLETED)
            if self._stopping.is_set():
                # A step is not cut off: after a part of a commit, another commit would write offsets without results.
                await self._turn.acquire()
            for each in followed:
                if each.done():
                    each.result()
            is_clean = True
        except Exception as error:
            if self.ends_all(error):
                self.member.shut_down_application()
            raise
        finally:
            for task in (stopping, *followed):
                task.cancel()
            await asyncio.gather(stopping, *followed, return_exceptions=True)
            await self._end(is_clean=is_clean)

    async def _is_prepared(self) -> bool:
        """Wait for the schemas of results. False: the application stops first. Raises SerdeError."""
        asked: list[asyncio.Task[Any]] = [
            asyncio.create_task(self._ahead.prepare()),
            asyncio.create_task(self._stopping.wait()),
        ]
        try:
            await asyncio.wait(asked, return_when=asyncio.FIRST_COMPLETED)
            if asked[0].done():
                asked[0].result()
            return asked[0].done()
        finally:
            for each in asked:
                each.cancel()
            await asyncio.gather(*asked, return_exceptions=True)

    async def _end(self, *, is_clean: bool) -> None:
        await self._reading.stop()
        with suppress(ClientError, Lost, StreamsError):
            if is_clean:
                await self._committing.commit()
        await self._committing.break_off()
        if not is_clean:
            await self._committing.write_letters()
        for task_id in list(self.tasks.running):
            self.tasks.close(task_id, sync=True)
        self._globals.close(sync=True)
        with suppress(ClientError):
            if self.member.shuts_down_application:
                last = self.member.next(asyncio.get_running_loop().time(), may_join=False)
                if isinstance(last, Send):
                    await self._link.exchange(last)
            send = self.member.stop()
            if send is not None:
                await self._link.exchange(send)
        self._link.close()

    async def _follow_globals(self) -> None:
        while True:
            try:
                await self._globals.follow()
            except ClientError as error:
                if not error.retriable:
                    raise
                self._timeout.failed(GLOBAL_STORES, error)

    # ---- the member

    async def _be_member(self) -> None:
        loop, news = asyncio.get_running_loop(), GroupNews(self._settings.application_id)
        while True:
            member = self.member
            news.look(member, loop.time())
            action = member.next(loop.time())
            if isinstance(action, Send):
                # The answer may take away tasks: the other coroutine looks at `owned` before each step.
                try:
                    await self._link.exchange(action)
                except ClientError as error:
                    if error.failure is Failure.UNSUPPORTED:
                        raise StreamsError(f"{error} ({NO_STREAMS_GROUPS})") from error
                    if not error.retriable:
                        raise
                    self._timeout.failed(MEMBERSHIP, error)
                    member.no_answer(action, loop.time())
                if member.owned != self._taken:
                    self._news.set()
            elif isinstance(action, Revoke):
                async with self._turn:
                    await self._give_up(action.parts)
                member.revoked(action.parts)
            else:
                await asyncio.sleep(min(member.wait_s(loop.time()), IDLE_S))

    async def _give_up(self, parts: frozenset[Assigned]) -> None:
        await self._reading.stop()
        await self._commit_or_lose()
        for each in parts:
            self.tasks.close((each.subtopology, each.partition))
            self.measures.tasks_closed += 1
        self._taken -= parts

    # ---- the tasks

    async def _work(self) -> None:
        loop = asyncio.get_running_loop()
        self._committing.begin(loop.time())
        while True:
            chunk = await self._next_chunk()
            reading = self._reading.run
            async with self._turn:
                await self._follow_group()
                # Tasks that began again meanwhile read from other positions.
                if chunk is not None and self._reading.run is reading:
                    self._take(chunk)
                self._process()
                try:
                    await self._committing.step()
                except Lost as error:
                    await self._lose_all(error)
                await self._look_after(loop.time())

    def _take(self, chunk: Chunk) -> None:
        begin_ns = time.perf_counter_ns()
        self._timeout.passed(INPUTS)
        if self.tasks.take(chunk):
            taken_ns = time.perf_counter_ns() - begin_ns
            self.measures.poll(chunk.partition.topic, len(chunk.records), chunk.size_bytes, taken_ns)

    async def _next_chunk(self) -> Chunk | None:
        """The next chunk, or None soon if there is other work."""
        if self._is_busy or self.member.owned != self._taken:
            await asyncio.sleep(0)
        elif self._reading.is_empty or self.is_paused:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._wait_s()):
                    await self._news.wait()
            self._news.clear()
        # Tasks that have enough for another step get no more, which bounds what waits in them.
        found = None if self._is_behind or self.is_paused or self._reading.is_empty else self._reading.take()
        if isinstance(found, Exception):
            if not isinstance(found, ClientError):
                raise found
            if found.code is ErrorCode.OFFSET_OUT_OF_RANGE:
                # Records were deleted before they were read: auto.offset.reset decides when the tasks begin again.
                self._begins_again = True
            elif found.retriable:
                self._timeout.failed(INPUTS, found)
                await self._reading.stop()
            else:
                raise found
            return None
        return found

    def _wait_s(self) -> float:
        idle_s = WAITING_S if any(each.task.waiting() for each in self.tasks.active) else IDLE_S
        return min(idle_s, self._committing.wait_s(asyncio.get_running_loop().time()))

    async def _follow_group(self) -> None:
        """Drop tasks that the group has taken away without a question, and begin new ones."""
        now_s, epoch = asyncio.get_running_loop().time(), self.member.generation
        is_due = epoch != self._generation or now_s >= self._topics_due_s
        if self._begins_again:
            self._begins_again = False
            await self._give_up(frozenset(each for each in self._taken if each.role is Role.ACTIVE))
        if is_due and self.member.fenced == self._committing.fenced and self._taken <= self.member.owned:
            self._generation, self._topics_due_s = epoch, now_s + TOPICS_S
            await self._take_new_partitions()
        owned = self.member.owned
        if self.member.fenced != self._committing.fenced or not self._taken <= owned:
            self._committing.fenced = self.member.fenced
            self.life.enter(InstanceState.REBALANCING)
            # The next owners begin at the last commit, which is known when the one that goes on has ended.
            with suppress(Lost):
                await self._committing.wait()
            await self._lose_tasks()
        if fresh := owned - self._taken:
            self.life.enter(InstanceState.REBALANCING)
            await self._reading.stop()
            await self._topics.look_for_sinks()
            for each in sorted(fresh, key=lambda task: (task.subtopology, task.partition)):
                self.tasks.make((each.subtopology, each.partition), each.role)
                self.measures.tasks_created += 1
            self._taken |= fresh
        if self.tasks.has_restored:
            await self._reading.stop()
            self.tasks.begin(self._now_ms())
        is_stable = self.member.state is State.STABLE and not self.member.must_rejoin
        if is_stable and not self.tasks.is_restoring:
            self.life.enter(InstanceState.RUNNING)
        if self._reading.run is None and self.tasks.active:
            self._reading.begin(self.tasks.positions())

    async def _take_new_partitions(self) -> None:
        """Begin the tasks again whose source topics have more partitions: each change begins an epoch of the group, but
        the tasks may stay the same.
        """
        await self._topics.look()
        grown = frozenset(each for each in self._taken if self.tasks.has_new_inputs((each.subtopology, each.partition)))
        if grown:
            _LOG.warning("source topics have more partitions: %s", ", ".join(sorted(map(str, grown))))
            await self._give_up(grown)

    async def _lose_tasks(self) -> None:
        """Forget all that was processed since the last commit."""
        await self._reading.stop()
        self._committing.forget()
        for each in self._taken:
            self.tasks.close((each.subtopology, each.partition))
            self.measures.tasks_closed += 1
        self._taken = frozenset()

    def _process(self) -> None:
        now_ms, clock = self._now_ms(), time.perf_counter_ns
        before, self._is_behind = self.processed, False
        if self.is_paused:
            self._is_busy = False
            return
        for each in self.tasks.active:
            begin_ns = clock()
            count = each.task.run(now_ms, STEP_RECORDS)
            run_ns = clock()
            if count:
                self.processed += count
                self._is_behind |= count == STEP_RECORDS
                self.measures.process(each.measures, count, run_ns - begin_ns)
            if each.task.punctuate(now_ms):
                self.measures.punctuate(each.measures, clock() - run_ns)
            self._committing.collect(each)
        self._is_busy = self.processed > before

    async def _commit_or_lose(self) -> None:
        try:
            await self._committing.commit()
        except Lost as error:
            await self._lose_all(error)

    async def _lose_all(self, error: Lost) -> None:
        """Raises StreamsError: commits have failed for longer than task.timeout.ms."""
        if isinstance(error, Retried):
            self._timeout.failed(COMMIT, error)
        else:
            _LOG.warning(
                "a commit does not count, because the tasks went to another member, or it took longer than"
                " transaction.timeout.ms (%d ms): %s",
                self._settings.transaction_timeout_ms,
                error,
            )
        if not error.is_member:
            self.member.forget()
        await self._lose_tasks()

    async def _look_after(self, now_s: float) -> None:
        """Repartition topics lose what was processed."""
        if now_s >= self._purge_due_s:
            self._purge_due_s = now_s + self._settings.repartition_purge_ms / 1000
            internal = {
                self._topology.decorated(each.name, self._settings.application_id)
                for each in self._topology.repartition_topics
            }
            before = {
                key: at for each in self.tasks.active for key, at in each.committed.items() if key.topic in internal
            }
            if before:
                with suppress(ClientError):
                    await self._client.topics.delete_records(before)


def _endpoint(text: str) -> Endpoint | None:
    """application.server as HOST:PORT. Raises ValueError."""
    if not text:
        return None
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal() or int(port) > 65_535:
        raise ValueError(f"application.server is {text!r}; HOST:PORT is expected")
    return Endpoint(host, int(port))
