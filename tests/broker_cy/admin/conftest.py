"""Both clusters that the admin core supports: broker-cy, and Apache Kafka if Maven can download it."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable, Iterator
from typing import Protocol, TypeVar

import pytest

from broker_cy.admin import AdminClient
from tests.support.broker import QUICK, BrokerProcess
from tests.support.kafka_peer import KafkaPeer

T = TypeVar("T")

# For the calls of tests: on a busy machine, a first call waits while Kafka makes the topics of its coordinators.
TIMEOUT_S = 60.0
# As those of `live_kafka`.
SETTINGS = {**QUICK, "transaction.partition.verification.enable": "false"}


class Run(Protocol):
    """Runs a job with a new client, and returns what the job returns."""

    def __call__(self, job: Callable[[AdminClient], Awaitable[T]], timeout_s: float = ...) -> T: ...


@pytest.fixture(scope="session")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """One broker-cy for the tests of the admin core."""
    broker = BrokerProcess(tmp_path_factory.mktemp("admin-broker"), SETTINGS)
    try:
        yield broker.start()
    finally:
        broker.close()


@pytest.fixture(params=["broker-cy", "kafka"])
def cluster(request: pytest.FixtureRequest) -> BrokerProcess | KafkaPeer:
    """One of the two clusters after the other."""
    peer: BrokerProcess | KafkaPeer = request.getfixturevalue("ours" if request.param == "broker-cy" else "live_kafka")
    return peer


@pytest.fixture
def run(cluster: BrokerProcess | KafkaPeer, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs a job against the cluster of the test."""
    # After two seconds, a change counts as done although Kafka does not show it yet. On a busy machine it may need
    # longer: the tests wait as long as their calls may take.
    monkeypatch.setattr("broker_cy.admin.topics.SETTLE_ATTEMPTS", 10**6)

    def call(job: Callable[[AdminClient], Awaitable[T]], timeout_s: float = TIMEOUT_S) -> T:
        return with_client(cluster.bootstrap, job, timeout_s)

    return call


def with_client(bootstrap: str, job: Callable[[AdminClient], Awaitable[T]], timeout_s: float = TIMEOUT_S) -> T:
    """Run `job` with a client of `bootstrap` in a new event loop; returns its result."""

    async def inside() -> T:
        async with AdminClient(bootstrap, timeout_s=timeout_s) as client:
            return await job(client)

    return asyncio.run(inside())


@pytest.fixture
def name() -> str:
    """Return a unique name."""
    return "t-" + uuid.uuid4().hex[:10]
