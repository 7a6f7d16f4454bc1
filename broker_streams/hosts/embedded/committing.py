"""The commits of an instance: what its tasks have processed goes to the writer, and is noted when it counts."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from broker_cy.admin import ClientError
from broker_cy.admin.metadata import TopicPartition
from broker_cy.client.group_member import State
from broker_cy.client.streams_member import StreamsMember
from broker_cy.client.transaction import GroupMetadata
from broker_streams.hosts.embedded.commits import Commits, Ended
from broker_streams.hosts.embedded.tasks import Running, Tasks
from broker_streams.hosts.embedded.writer import Fenced, Offsets, Writer
from broker_streams.hosts.measures import Measures
from broker_streams.hosts.results import Results
from broker_streams.hosts.settings import HostSettings
from broker_streams.hosts.task_timeout import COMMIT, TaskTimeout

# Results that are not committed; more of them are committed at once.
RESULTS_MAX: Final = 100_000
# Between a commit and one of positions alone: beyond the markers of transactions behind the last records.
POSITIONS_S: Final = 1.0


class Committing:
    """All calls are made between two steps of the tasks. `count` counts commits that have ended well; `after_commit`
    are called after one behind which nothing was processed. `ended` is called when a commit has ended, well or not.
    """

    def __init__(
        self,
        writer: Writer,
        settings: HostSettings,
        tasks: Tasks,
        member: StreamsMember,
        measures: Measures,
        timeout: TaskTimeout,
        ended: Callable[[], None],
    ) -> None:
        self._writer, self._settings, self._tasks, self._member = writer, settings, tasks, member
        self._measures, self._timeout = measures, timeout
        self._commits = Commits(writer, ended)
        self.after_commit: list[Callable[[], None]] = []
        self.count = 0
        # How often the group went on without this member, as the tasks know: after that, none is the one of before.
        self.fenced = 0
        self._results = Results()
        self._is_settling = False
        self._due_s = self._positions_due_s = 0.0

    @property
    def has_changes(self) -> bool:
        """Whether something was processed that no commit has begun with."""
        return bool(self._results) or any(each.task.commit_needed for each in self._tasks.active)

    @property
    def is_running(self) -> bool:
        """Whether a commit goes on, or has ended and was not noted."""
        return self._commits.is_running

    def settle(self) -> None:
        """Let the tasks wait for the next commit, so that `after_commit` are called."""
        self._is_settling = True

    def begin(self, now_s: float) -> None:
        """Tasks begin: the first commit is due after the interval."""
        self._due_s = now_s + self._settings.commit_interval_ms / 1000

    def wait_s(self, now_s: float) -> float:
        """The time until a commit is due; infinite without changes, or while one goes on: its end is news."""
        needs_commit = any(each.task.commit_needed for each in self._tasks.active)
        return max(0.0, self._due_s - now_s) if needs_commit and not self._commits.is_running else math.inf

    def collect(self, of: Running) -> None:
        """Take the results of a task since the last call."""
        outputs, changes = of.task.take_results()
        self._results.add(outputs, of.task)
        self._results.add_changes(changes, of.task.state.task_id[1], of.task)

    async def step(self) -> None:
        """Begin a commit that is due. One that goes on delays it, or the tasks, if there are many results. Raises Lost,
        ClientError, StreamsError.
        """
        is_full = len(self._results) >= RESULTS_MAX
        self._note(await self._commits.wait() if is_full else self._commits.check())
        active, now_s = self._tasks.active, asyncio.get_running_loop().time()
        is_due = is_full or now_s >= self._due_s or any(each.task.commit_requested for each in active)
        if not is_due or self._commits.is_running:
            return
        self.begin(now_s)
        if self.has_changes:
            self._begin(now_s)
            if self._is_settling:
                self._note(await self._commits.wait())
        elif now_s >= self._positions_due_s and any(each.has_moved for each in active):
            self._begin(now_s)
        else:
            self._tasks.rest()

    async def commit(self) -> None:
        """Commit all that was processed. Raises Lost, ClientError, StreamsError."""
        await self.wait()
        if self._begin(asyncio.get_running_loop().time()):
            await self.wait()

    async def wait(self) -> None:
        """Let a commit that goes on end. Raises Lost, ClientError, StreamsError."""
        self._note(await self._commits.wait())

    def forget(self) -> None:
        """Drop results of tasks that are lost."""
        self._results = Results()

    async def break_off(self) -> None:
        """Abort a commit that goes on."""
        await self._commits.break_off()

    async def write_letters(self) -> None:
        """After an error: write the dead letters of the tasks, which may say why there was one. With exactly_once_v2
        nothing counts that is not committed, so there are none, as in Kafka Streams.
        """
        topic = self._settings.task.dead_letter_topic
        if topic is None or self._settings.is_exactly_once:
            return
        for each in self._tasks.active:
            self.collect(each)
        found = [batches for (name, _), batches in self._results.batches().items() if name == topic]
        letters = [record for batches in found for batch in batches for record in batch]
        if letters:
            with suppress(ClientError):
                await self._writer.write(topic, letters)

    def _begin(self, now_s: float) -> bool:
        """Return whether there is something to commit. Raises Fenced, StreamsError."""
        member = self._member
        if member.fenced != self.fenced or member.state is not State.STABLE:
            # The member may have joined again, and its new epoch would count for tasks that it lost. A commit without
            # an epoch would count, too.
            raise Fenced("the group went on without this member", is_member=True)
        offsets: dict[TopicPartition, int] = {}
        texts: dict[TopicPartition, str] = {}
        for each in self._tasks.active:
            each.task.flush()
            self.collect(each)
            reached = each.reached()
            # Results without offsets would count even from a member that was fenced.
            has_results = bool(self._results)
            offsets |= {key: at for key, at in reached.items() if has_results or each.committed.get(key) != at}
            texts |= {TopicPartition(*key): text for key, text in each.task.metadata().items()}
        if not offsets and not self._results:
            return False
        group = GroupMetadata(self._settings.application_id, member.generation, member.member_id)
        self._tasks.seal()
        results, self._results = self._results, Results()
        self._commits.begin(results, Offsets(offsets, {key: texts[key] for key in offsets}), group)
        self._positions_due_s = now_s + POSITIONS_S
        return True

    def _note(self, ended: Ended | None) -> None:
        """A commit has ended well. Raises StreamsError: state cannot be written."""
        if ended is None:
            return
        for each in self._tasks.active:
            each.committed |= {key: at for key, at in ended.offsets.at.items() if key in each.inputs}
        self._tasks.committed(self._writer.ends, ended.offsets.at)
        self.count += 1
        self._timeout.passed(COMMIT)
        for topic, (records, size_bytes) in ended.results.traffic().items():
            self._measures.produce(topic, records, size_bytes)
        self._measures.commit(ended.lasted_ns)
        if not self.has_changes:
            self._is_settling = False
            for call in self.after_commit:
                call()
