"""The errors of a commit: which of them lose the tasks, and which end the application."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any

import pytest

from broker_cy.admin import ClientError, Failure
from broker_cy.admin.metadata import TopicPartition
from broker_cy.admin.produce import Appended, Producer
from broker_cy.client.transaction import GroupMetadata, WrongState
from broker_cy.core.errors import ErrorCode
from broker_cy.wire.record import Record
from broker_streams.hosts.embedded.writer import Fenced, Offsets, Writer
from broker_streams.hosts.results import Results
from broker_streams.hosts.settings import HostSettings
from broker_streams.hosts.task_timeout import TaskTimeout


class Failing(Producer):
    """A producer that fails for each partition with its error."""

    def __init__(self, *errors: Exception) -> None:
        self._errors = errors

    async def send_batches(
        self, partition: TopicPartition, batches: Iterable[Sequence[Record]]
    ) -> tuple[Appended, ...]:
        raise self._errors[partition.partition]


def commit(*errors: Exception) -> None:
    client: Any = None
    config = {"application.id": "a", "bootstrap.servers": "localhost:1", "processing.guarantee": "at_least_once"}
    writer = Writer(client, HostSettings.of(config), "a-1", TaskTimeout(0))
    writer._producer = Failing(*errors)
    results = Results()
    results.add([("out", number, b"k", b"v", 0, ()) for number in range(len(errors))])
    asyncio.run(writer.commit(results, Offsets({}, {}), GroupMetadata("a")))


def refused(code: ErrorCode) -> ClientError:
    return ClientError(Failure.REFUSED, "refused", code=code)


@pytest.mark.parametrize("code", [ErrorCode.INVALID_PRODUCER_ID_MAPPING, ErrorCode.PRODUCER_FENCED])
def test_a_producer_that_the_cluster_lost_loses_the_tasks(code: ErrorCode) -> None:
    """If this fails, a coordinator that has lost a transactional id ends all applications that use it."""
    state = WrongState("the producer has no open transaction")
    with pytest.raises(Fenced) as fenced:
        commit(state, refused(code), state)
    assert fenced.value.is_member


def test_other_errors_end_the_application() -> None:
    """If this fails, an application without rights on a topic begins again for ever."""
    with pytest.raises(ClientError, match="refused"):
        commit(WrongState("the producer has no open transaction"), refused(ErrorCode.TOPIC_AUTHORIZATION_FAILED))
