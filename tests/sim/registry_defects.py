"""Defects of the registry's writer, which its simulation must find. Each is planted by replacing one function."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from broker_registry.operations import register
from broker_registry.operations.plan import Claims, Ids
from broker_registry.rights import FencingRight
from broker_registry.store.state import State
from broker_registry.writer import Writer, _answer
from tests.sim.defects import Patch, Planter


def new_writers_do_not_read_to_the_end(patch: Patch) -> None:
    """A writer plans from the state that it happens to have when it takes the right."""

    async def hold(self: Writer) -> None:
        right = self._right
        assert isinstance(right, FencingRight)
        if not self._is_held:
            right._producer = right._client.transactional_producer("t", timeout_ms=1)
            await right._producer.begin()
            self._is_held = True

    patch.setattr(Writer, "_hold", hold)


def answers_precede_the_commit(patch: Patch) -> None:
    """A client is answered before the transaction is committed; a writer that is fenced then loses the schema."""
    right = Writer._commit

    async def commit(self: Writer, planned: Sequence[Any]) -> None:
        _answer(planned)
        await right(self, planned)

    patch.setattr(Writer, "_commit", commit)


def plans_share_transactions_though_they_meet(patch: Patch) -> None:
    """Two registrations of one schema, or of one subject, are planned from the same state in one transaction."""
    patch.setattr(Claims, "take", lambda self, plan: True)


def ids_of_one_transaction_are_the_same(patch: Patch) -> None:
    """Each plan of a transaction gets the first free id."""
    patch.setattr(Ids, "next", lambda self, context: self._state.max_id(context) + 1)


def open_transactions_are_answered_as_committed(patch: Patch) -> None:
    """A commit whose answer was lost counts as done."""
    right = Writer._hold

    async def hold(self: Writer) -> None:
        if self._open is not None:
            _answer(self._open.planned)
            self._open = None
        await right(self)

    patch.setattr(Writer, "_hold", hold)


def deleted_versions_are_numbered_again(patch: Patch) -> None:
    """The next version follows the newest one that is not deleted."""
    right = State.versions

    def versions(self: State, subject: str) -> Any:
        return [value for value in right(self, subject) if not value.is_deleted]

    patch.setattr(State, "versions", versions)


def schemas_are_not_found_by_their_hash(patch: Patch) -> None:
    """A schema of another subject gets an id of its own."""
    patch.setattr(register, "_found_by_hash", lambda state, wanted: (wanted.id, None))


def writers_keep_a_right_that_they_have_lost(patch: Patch) -> None:
    """A writer that is fenced goes on with a new epoch, and with the plans of its old state."""
    right = FencingRight.append

    async def append(self: FencingRight, records: Sequence[Any]) -> Any:
        self._producer = self._client.transactional_producer("t", timeout_ms=1)
        return await right(self, records)

    patch.setattr(FencingRight, "append", append)


DEFECTS: tuple[Planter, ...] = (
    new_writers_do_not_read_to_the_end,
    answers_precede_the_commit,
    plans_share_transactions_though_they_meet,
    ids_of_one_transaction_are_the_same,
    open_transactions_are_answered_as_committed,
    deleted_versions_are_numbered_again,
    schemas_are_not_found_by_their_hash,
    writers_keep_a_right_that_they_have_lost,
)
