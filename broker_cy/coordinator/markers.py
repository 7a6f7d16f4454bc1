"""The markers that end the transactions of producers, in a partition of `__consumer_offsets`."""

from __future__ import annotations

from broker_cy.coordinator.group_machine import GroupMachine
from broker_cy.coordinator.step import GroupStep, OffsetsCommitted
from broker_cy.core.classes import NamedTuple
from broker_cy.core.errors import ErrorCode
from broker_cy.core.step import Now, Token


class MarkerWritten(NamedTuple):
    """The marker of a transaction is on disk, or the code says why it is not."""

    token: Token

    def written(self, machine: GroupMachine, out: GroupStep, now: Now) -> None:
        out.reply(self.token, ErrorCode.NONE)

    def failed(self, machine: GroupMachine, out: GroupStep, now: Now, code: ErrorCode) -> None:
        out.reply(self.token, code)


def end_transaction(machine: GroupMachine, step: GroupStep, producer_id: int, committed: bool, token: Token) -> None:
    """The marker that ends the producer's transaction is the next record; `token` gets its ErrorCode."""
    before = machine.apply_marker(machine.next_offset, producer_id, committed)
    step.before.append(before)
    machine.offsets.commits += len(before.committed)
    if before.committed:
        step.then(OffsetsCommitted(tuple(place for place, _ in before.committed)))
    step.then(MarkerWritten(token))
