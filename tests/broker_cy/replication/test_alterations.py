"""The in-sync sets that leaders propose, and unexpected answers."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest

from broker_cy.core import supervision
from broker_cy.core.errors import ErrorCode
from broker_cy.replica.in_sync import Altered, Proposal
from broker_cy.replication.alterations import Alterations
from broker_cy.wire import messages
from tests.broker_cy.handlers.metadata_broker import run, until

TOPIC_ID = UUID(int=7)
Answer = messages.AlterPartitionResponse.PartitionData


class Leader:
    """A partition that this broker leads, and that proposes a set."""

    def __init__(self) -> None:
        self.topic_id, self.index, self.closed = TOPIC_ID, 0, False
        self.proposal = cast(Proposal, SimpleNamespace(leader_epoch=1, partition_epoch=2, isr=((1, 5),)))
        in_sync = SimpleNamespace(unsent=True, sent=lambda: self.proposal, proposal=self.proposal)
        self.replica = SimpleNamespace(in_sync=in_sync)
        self.heard: list[Altered] = []

    def answered(self, _: Proposal, altered: Altered) -> None:
        self.heard.append(altered)
        self.replica.in_sync.proposal = None


class Controller:
    """Answers with what the test says: an exception is raised."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)

    async def alter_partition(self, request: messages.AlterPartitionRequest) -> messages.AlterPartitionResponse:
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        topic = messages.AlterPartitionResponse.TopicData(topic_id=TOPIC_ID, partitions=[answer])
        return messages.AlterPartitionResponse(topics=[topic])


def alter(controller: Controller) -> list[Altered]:
    """Return the answers that a leader gets."""
    leader = Leader()

    async def work() -> None:
        alterations = Alterations(1, lambda: 5, asyncio.get_running_loop(), controller)
        alterations.add(cast(Any, leader))
        await until(lambda: bool(leader.heard))
        # A later proposal is sent, too.
        controller.answers.append(Answer(partition_index=0))
        leader.replica.in_sync.proposal = leader.proposal
        alterations.add(cast(Any, leader))
        await until(lambda: len(leader.heard) == 2)
        alterations.close()

    run(work)
    return leader.heard


def test_an_error_of_a_newer_version_is_an_error() -> None:
    """If this fails, in-sync sets never change again once a newer controller has refused one of them."""
    heard = alter(Controller(Answer(partition_index=0, error_code=999)))
    assert [each.error for each in heard] == [ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.NONE]


def test_a_proposal_is_sent_again_after_a_defect(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """If this fails, acks=all waits for a dead follower until this broker restarts."""
    monkeypatch.setattr(supervision, "BACKOFF_MS_MIN", 1)
    heard = alter(Controller(ValueError("a defect"), Answer(partition_index=0)))
    assert [each.error for each in heard] == [ErrorCode.NONE, ErrorCode.NONE]
    assert "changes of in-sync sets failed, and begins again" in caplog.text
