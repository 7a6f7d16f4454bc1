"""The invariants of the share coordinator: its state is compared with the clients' knowledge, and with its log."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from broker_cy.coordinator.base import Deletions
from broker_cy.coordinator.share_state.answers import StateRead
from broker_cy.coordinator.share_state.state import NO_COUNT, NO_START_OFFSET, SharePartitionKey, ShareState, StateBatch

if TYPE_CHECKING:
    from tests.sim.share_state_world import World

# The state of a share partition since an initialization, whose state epoch no other one has.
Life = tuple[SharePartitionKey, int]


class Acked:
    """The clients' knowledge: what was acknowledged to them, by life."""

    def __init__(self) -> None:
        self.newest: dict[SharePartitionKey, int] = {}
        self.gone: set[Life] = set()
        self.maybe_deleted: set[Life] = set()
        self.start_offsets: dict[Life, int] = {}
        # The delivery count and state of each offset that were written.
        self.offsets: dict[Life, dict[int, tuple[int, int]]] = {}

    def initialized(self, key: SharePartitionKey, state_epoch: int) -> None:
        self.newest[key] = max(self.newest.get(key, 0), state_epoch)

    def deleted(self, key: SharePartitionKey, state_epoch: int) -> None:
        self.gone.add((key, state_epoch))

    def wrote(self, key: SharePartitionKey, state_epoch: int, start_offset: int, batches: Sequence[StateBatch]) -> None:
        life = key, state_epoch
        if start_offset != NO_START_OFFSET:
            self.start_offsets[life] = max(self.start_offsets.get(life, 0), start_offset)
        known = self.offsets.setdefault(life, {})
        for batch in batches:
            for offset in range(batch.first_offset, batch.last_offset + 1):
                known[offset] = max(known.get(offset, (0, 0)), (batch.delivery_count, batch.delivery_state))

    def check_read(self, key: SharePartitionKey, answer: StateRead) -> None:
        """An answer of a read has everything that was acknowledged before."""
        assert answer.state_epoch >= self.newest.get(key, 0), f"{key} went back to an earlier initialization"
        self.check_state(key, answer.state_epoch, answer.start_offset, answer.batches)

    def check_state(
        self, key: SharePartitionKey, state_epoch: int, start_offset: int, batches: Sequence[StateBatch]
    ) -> None:
        life = key, state_epoch
        assert life not in self.gone, f"{key} exists although its deletion was acknowledged"
        written = {
            offset: batch[2:] for batch in batches for offset in range(batch.first_offset, batch.last_offset + 1)
        }
        assert all(offset >= start_offset for offset in written), f"{key} has batches below its start offset"
        for offset, acked in self.offsets.get(life, {}).items():
            if offset >= start_offset:
                assert written.get(offset, (0, 0)) >= acked, f"{key} lost the acknowledged state of offset {offset}"


def check(world: World) -> None:
    """Check the invariants after each step; the AssertionError names the violation."""
    harness, machine = world.harness, world.harness.machine
    deletions = sum(isinstance(follow, Deletions) for step in harness.held for follow in step.follows)
    assert deletions <= 1, f"{deletions} steps of records that no request waits for are being written"
    for token in world.waiting:
        assert harness.held or token in harness.answers, f"request {token} is not answered"
    _check_updates(world)
    for key, entry in machine.entries.items():
        disjoint = all(a.last_offset < b.first_offset for a, b in pairwise(entry.state.batches))
        assert disjoint, f"batches of {key} overlap: {entry.state.batches}"
    if not harness.held:
        _check_durable(world)


def _check_updates(world: World) -> None:
    """No snapshot is missing."""
    updates: dict[bytes, int] = {}
    for record in world.harness.log[world.harness.log_start :]:
        place = record.key[2:]
        updates[place] = updates.get(place, 0) + 1 if record.key[:2] == b"\0\1" else 0
        assert updates[place] <= world.limit, f"{updates[place]} updates follow a snapshot"


def _check_durable(world: World) -> None:
    """A restart restores the state, and that has everything that was acknowledged."""
    harness, machine, acked = world.harness, world.harness.machine, world.acked
    now = harness, harness.leader_epoch, len(harness.log), harness.partition.log.log_start_offset
    if now == world.checked:
        return
    world.checked = now
    again = harness.replayed()
    assert _states(again.entries) == _states(machine.entries), "a restart would restore another state"
    for key in [key for key in acked.newest if key.topic_id not in world.topics]:
        del acked.newest[key]
    if not machine.has_deletions():
        left = {key.topic_id for key in machine.entries}.difference(world.topics)
        assert not left, f"the state of the deleted topics {left} is kept"
    for key, entry in again.entries.items():
        is_known = entry.state.start_offset == NO_START_OFFSET or entry.state.delivery_complete_count != NO_COUNT
        assert is_known, f"the lag of {key} is unknown, although its start offset is known"
    for key, state_epoch in acked.newest.items():
        found = again.entries.get(key)
        if found is None:
            assert (key, state_epoch) in acked.maybe_deleted or _was_replaced(acked, key), f"{key} is lost"
            continue
        state = found.state
        assert state.state_epoch >= state_epoch or (key, state_epoch) in acked.maybe_deleted, f"{key} went back"
        acked.check_state(key, state.state_epoch, state.start_offset, state.batches)
        assert state.start_offset >= acked.start_offsets.get((key, state.state_epoch), NO_START_OFFSET), (
            f"the start offset of {key} went back"
        )


def _was_replaced(acked: Acked, key: SharePartitionKey) -> bool:
    """Whether a later life, whose initialization was not acknowledged, may have been deleted."""
    return any(place == key and epoch > acked.newest[key] for place, epoch in acked.maybe_deleted)


def _states(entries: object) -> dict[SharePartitionKey, ShareState]:
    """The durable part: counts and fences may begin again where the log was cut."""
    assert isinstance(entries, dict)
    return {key: entry.state for key, entry in entries.items()}
