"""Voters for tests: a machine without a network, on which events are taken one by one."""

from __future__ import annotations

from broker_cy.quorum.election_state import ElectionState
from broker_cy.quorum.epochs import LogEpochs
from broker_cy.quorum.messages import Message
from broker_cy.quorum.quorum import Quorum
from broker_cy.quorum.step import Append, Output, Proposal, Received, Send, Start, Synced
from broker_cy.quorum.voters import ReplicaKey


def keys(*ids: int) -> tuple[ReplicaKey, ...]:
    return tuple(map(ReplicaKey, ids))


def least(low: int, high: int) -> int:
    """Draws the least: an election starts after exactly the election timeout."""
    return low


class Voter:
    """Voter 1 of `voters`. Each method is one step at `now_ms`."""

    def __init__(
        self, voters: tuple[int, ...] = (1,), stored: ElectionState | None = None, log: LogEpochs | None = None
    ) -> None:
        self.quorum = Quorum(1, voters, stored, log or LogEpochs(0), least)
        self.now_ms = 1000
        self.first = self.quorum.step(Start(), self.now_ms)

    def receive(self, source: int, message: Message) -> Output:
        return self.quorum.step(Received(source, message), self.now_ms)

    def synced(self, end_offset: int | None = None) -> Output:
        end = self.quorum.end_offset if end_offset is None else end_offset
        return self.quorum.step(Synced(end), self.now_ms)

    def append(self, *entries: int) -> Output:
        proposals = tuple(Proposal(count, b"") for count in entries)
        return self.quorum.step(Append(self.quorum.epoch, self.quorum.end_offset, proposals), self.now_ms)


def sent(output: Output, to: int) -> list[Message]:
    return [each.message for each in output.send if each.to == to]


def to_all(others: tuple[int, ...], message: Message) -> tuple[Send, ...]:
    return tuple(Send(voter, message) for voter in others)
