"""The operator of the share simulation: it releases, rejects and redrives records in flight, and previews that first.

An answered rejection must hold as an acknowledgement does, and an answered redrive must end in a delivery, through
changes of the leader.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker_cy.share import operating
from broker_cy.wire.share_operations import OperatorAction

if TYPE_CHECKING:
    from tests.sim.share_world import World


class Operator:
    def __init__(self, world: World) -> None:
        self._world = world
        # How often each record was redriven: each time it has one more delivery, and its count grows by one.
        self.redrives: dict[int, int] = {}
        # Redriven, which was answered, and not delivered since.
        self.owed: set[int] = set()

    def act(self) -> None:
        """Change some records at the leader."""
        world = self._world
        partition = world.table.get(world.key)
        if partition is None:
            return
        action = world.rng.choice(list(OperatorAction))
        first = max(0, partition.start_offset + world.rng.randint(-2, 10))
        ranges = [(first, first + world.rng.randint(0, 6))]
        member = world.rng.choice(world.members).key.member_id if world.rng.random() < 0.3 else None
        before = partition.in_flight()
        previewed = operating.operate(partition, action, member, ranges, True)
        assert partition.in_flight() == before, "a preview changes records"
        write, *numbers = operating.operate(partition, action, member, ranges, False)
        assert [None, *numbers] == list(previewed), f"the preview has {previewed}, and the act {numbers}"
        if write is None:
            assert not numbers[0], f"{numbers[0]} records change, and nothing is written"
            return
        changed = {offset for begin, end, *_ in write.batches for offset in range(begin, end + 1)}
        assert len(changed) == numbers[0], f"{sorted(changed)} change, and {numbers[0]} are counted"
        world.counts["operated"] += 1
        for offset in changed:
            world.locks.pop(offset, None)
        if action == OperatorAction.REDRIVE:
            # An answer that is lost may have made them available anyway.
            world.settled -= changed
            for offset in changed:
                self.redrives[offset] = self.redrives.get(offset, 0) + 1
            world.send(partition, write, owes=frozenset(changed))
        else:
            archived = changed
            if action == OperatorAction.RELEASE:
                archived = {at for begin, end, _, state in write.batches if state for at in range(begin, end + 1)}
            # An answer that is lost may have archived them anyway.
            world.excused |= archived
            self.owed -= archived
            world.send(partition, write, settles=frozenset(archived))

    def attempts(self, offset: int) -> int:
        """Deliveries of a record that redrives have added."""
        return self.redrives.get(offset, 0)

    def check(self, passed: int) -> None:
        """The start offset has passed a record that is still in the log."""
        assert passed not in self.owed, f"the start offset passes {passed}, which was redriven and not delivered since"
