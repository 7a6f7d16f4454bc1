"""The operator of the share service simulation: it releases, rejects and redrives records through the handler."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from broker_cy.handlers.share_acknowledge import share_acknowledge
from broker_cy.wire import messages as m
from broker_cy.wire.share_operations import SESSION_EPOCH, Operation, OperatorAction, operation_tags, read_changed

if TYPE_CHECKING:
    from tests.sim.share_service_world import World

# The states from which each action takes a record.
_FROM = {OperatorAction.RELEASE: (1,), OperatorAction.REJECT: (0, 1), OperatorAction.REDRIVE: (4,)}


class Operator:
    def __init__(self, world: World) -> None:
        self._world = world
        # How often each record was redriven: each time it has one more delivery, and its count grows by one.
        self.redrives: dict[int, int] = {}
        self.answered = 0

    def act(self) -> None:
        """Send a request."""
        world = self._world
        share = world.share
        start = 0 if share is None else share.start_offset
        first = max(0, start + world.rng.randint(-2, 10))
        last = first + world.rng.randint(0, 6)
        member = world.rng.choice(world.members).name if world.rng.random() < 0.3 else ""
        world.loop.create_task(self._change(world.rng.choice(list(OperatorAction)), first, last, member))
        if world.rng.random() < 0.5:
            world.loop.settle()

    async def _change(self, action: OperatorAction, first: int, last: int, member: str) -> None:
        world = self._world
        changed = self._eligible(action, first, last, member)
        request = m.ShareAcknowledgeRequest
        batch = request.AcknowledgementBatch(first_offset=first, last_offset=last, acknowledge_types=[])
        part = request.AcknowledgePartition(partition_index=0, acknowledgement_batches=[batch])
        context = world.context(world.members[0])
        context.broker.events = SimpleNamespace(note=lambda event: None)
        context.client = None
        answer: Any = await share_acknowledge(
            context,
            request(
                group_id=world.group_id,
                member_id=member,
                share_session_epoch=SESSION_EPOCH,
                topics=[request.AcknowledgeTopic(topic_id=world.topic_id, partitions=[part])],
                _unknown_tags=operation_tags(Operation(action, False)),
            ),
        )
        assert not answer.error_code, f"an operator's request is refused: {answer.error_code}"
        (result,) = answer.responses[0].partitions
        if result.error_code:
            return
        found = read_changed(result._unknown_tags)
        assert found is not None
        assert found.records == len(changed), f"{found.records} records were changed, and not {sorted(changed)}"
        self.answered += 1
        if action is OperatorAction.REJECT:
            world.settled |= changed

    def _eligible(self, action: OperatorAction, first: int, last: int, member: str) -> set[int]:
        """Return the records that the request changes in this turn, and note what members no longer have."""
        world, share = self._world, self._world.share
        if share is None or not share.is_active or not world.leads:
            return set()
        found: set[int] = set()
        for begin, end, state, count, holder, _deadline, is_pending in share.in_flight():
            if is_pending or state not in _FROM[action] or (member and holder != member):
                continue
            offsets = set(range(max(begin, first, share.start_offset), min(end, last) + 1))
            found |= offsets
            if action is OperatorAction.RELEASE and count >= world.limit:
                world.excused |= offsets
        for offset in found:
            world.locks.pop(offset, None)
        if action is OperatorAction.REDRIVE:
            world.settled -= found
            for offset in found:
                self.redrives[offset] = self.redrives.get(offset, 0) + 1
        elif action is OperatorAction.REJECT:
            world.excused |= found
        return found
