"""Defects of the embedded host of broker_streams that worlds of the profile `streams-app` have to find."""

from __future__ import annotations

import itertools
from contextlib import suppress
from typing import Any

import pytest

from broker_cy.admin.offsets import Isolation
from broker_cy.client.transaction import GroupMetadata
from broker_streams.hosts.embedded import committing, restoring
from broker_streams.hosts.embedded import host as embedded
from broker_streams.hosts.embedded.host import EmbeddedHost
from broker_streams.hosts.embedded.restoring import Restorer
from broker_streams.hosts.embedded.writer import Fenced, Writer
from broker_streams.kernel.task import Task
from broker_streams.state.task_state import TaskState
from tests.sim.world.plan import STREAMS_APP
from tests.sim.world.planted import Plant, Planted

# So many seeds from the first one on find a defect.
SEEDS = 30
# One of so many records is left out.
FORGOTTEN_EVERY = 7


class Uncommitted:
    READ_COMMITTED = READ_UNCOMMITTED = Isolation.READ_UNCOMMITTED


def offsets_are_committed_without_results(patch: pytest.MonkeyPatch) -> None:
    """A commit whose results could not be written commits the offsets."""

    async def send(self: Writer, producer: Any, results: Any) -> None:
        """Nothing is written."""

    patch.setattr(Writer, "_send", send)


def a_stop_commits_offsets_alone(patch: pytest.MonkeyPatch) -> None:
    """The last commit of an instance that stops lacks its results."""
    right = EmbeddedHost._end

    async def end(self: EmbeddedHost, *, is_clean: bool) -> None:
        for each in self.tasks.active:
            each.task.flush()
            each.task.take_results()
        self._committing.forget()
        await right(self, is_clean=is_clean)

    patch.setattr(EmbeddedHost, "_end", end)


def restored_records_are_left_out(patch: pytest.MonkeyPatch) -> None:
    """A restored store lacks some records of its changelog."""
    right = Restorer.begin
    count = [0]

    class Forgetting:
        def __init__(self, store: Any) -> None:
            self._store = store

        def restore(self, *record: Any) -> None:
            count[0] += 1
            if count[0] % FORGOTTEN_EVERY:
                self._store.restore(*record)

    def begin(self: Restorer, stores: Any, state: Any) -> None:
        right(self, {name: Forgetting(store) for name, store in stores.items()}, state)

    patch.setattr(Restorer, "begin", begin)


def changes_are_not_logged(patch: pytest.MonkeyPatch) -> None:
    """Some changes of stores are missing in the changelog."""
    right = Task.take_results
    count = itertools.count(1)

    def take_results(self: Task) -> Any:
        outputs, changes = right(self)
        return outputs, [each for each in changes if next(count) % FORGOTTEN_EVERY]

    patch.setattr(Task, "take_results", take_results)


def stores_begin_empty(patch: pytest.MonkeyPatch) -> None:
    """A task processes before its stores are restored."""

    async def catch_up(self: Restorer, *upto: Any, **named: Any) -> int:
        return 0

    patch.setattr(Restorer, "catch_up", catch_up)


def uncommitted_inputs_are_processed(patch: pytest.MonkeyPatch) -> None:
    """Records of aborted transactions of the sources count."""
    patch.setattr(embedded, "Isolation", Uncommitted)


def uncommitted_changes_are_restored(patch: pytest.MonkeyPatch) -> None:
    """A restored store has records of aborted transactions."""
    patch.setattr(restoring, "Isolation", Uncommitted)


def commits_name_no_member(patch: pytest.MonkeyPatch) -> None:
    """The group takes the offsets of an instance whose tasks others have by now."""
    patch.setattr(committing, "GroupMetadata", lambda group_id, *_: GroupMetadata(group_id))


def refused_commits_count(patch: pytest.MonkeyPatch) -> None:
    """A commit that the coordinator refused or aborted is taken for one that counts."""
    right = Writer.commit

    async def commit(self: Writer, *arguments: Any) -> None:
        with suppress(Fenced):
            await right(self, *arguments)

    patch.setattr(Writer, "commit", commit)


def files_are_written_before_their_commit(patch: pytest.MonkeyPatch) -> None:
    """The file of a task gets the rows of a commit when it begins."""
    right = TaskState.seal

    def seal(self: TaskState) -> None:
        right(self)
        self.committed({})
        self.finish()

    patch.setattr(TaskState, "seal", seal)


def repartition_topics_are_purged_too_early(patch: pytest.MonkeyPatch) -> None:
    """Records of repartition topics are deleted when they are read."""
    right = EmbeddedHost._look_after

    async def look_after(self: EmbeddedHost, now_s: float) -> None:
        kept = [(each, each.committed) for each in self.tasks.active]
        for each, _ in kept:
            each.committed = dict(each.positions or {})
        try:
            await right(self, now_s)
        finally:
            for each, committed in kept:
                each.committed = committed

    patch.setattr(EmbeddedHost, "_look_after", look_after)


def _planted(*plants: tuple[Plant, int]) -> dict[str, Planted]:
    return {f"application: {plant.__name__}": Planted(plant, SEEDS, first, STREAMS_APP) for plant, first in plants}


APP_PLANTED = _planted(
    (offsets_are_committed_without_results, 0),
    (a_stop_commits_offsets_alone, 0),
    (restored_records_are_left_out, 0),
    (changes_are_not_logged, 0),
    (stores_begin_empty, 0),
    (uncommitted_inputs_are_processed, 0),
    (uncommitted_changes_are_restored, 0),
    (commits_name_no_member, 0),
    (refused_commits_count, 0),
    (files_are_written_before_their_commit, 0),
    (repartition_topics_are_purged_too_early, 0),
)
# The one that `make test` looks for: it takes the least time.
QUICK = frozenset({"application: uncommitted_inputs_are_processed"})
