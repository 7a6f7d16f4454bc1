"""Clusters that are away, that have no streams groups, or that refuse a resource."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from broker_cy.admin import AdminClient
from broker_cy.client.security import security_of
from broker_cy.security.acls import Binding, Operation, PatternType, Permission, ResourceType
from broker_streams import StreamsError
from broker_streams.hosts.embedded.host import EmbeddedHost
from broker_streams.hosts.measures import State
from broker_streams.hosts.task_timeout import INPUTS
from tests.broker_streams.brokers import SETTINGS
from tests.broker_streams.hosts.bad_input.ending import ends, passed_on, run
from tests.broker_streams.hosts.test_embedded import (
    WAIT_S,
    counts,
    create,
    running,
    settings,
    until,
    write,
)
from tests.support.broker import BrokerProcess
from tests.support.sasl_broker import ALICE, PASSWORD, client_settings
from tests.support.secured_broker import SecuredBroker


@pytest.mark.parametrize("guarantee", ["exactly_once_v2", "at_least_once"])
def test_an_application_outlives_a_cluster_that_is_away(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, guarantee: str
) -> None:
    """If this fails, task.timeout.ms has no effect: applications end with the first call that has no answer."""
    name = f"away-{guarantee}"

    async def job() -> None:
        async with asyncio.timeout(WAIT_S), AdminClient(own.bootstrap, timeout_s=2.0) as client:
            await create(client, f"{name}-in", f"{name}-out")
            await write(client, f"{name}-in", "a", "b")
            of = settings(name, processing_guarantee=guarantee)
            async with running(client, counts(name), of):
                await until(client, f"{name}-out", [("a", 1), ("b", 1)])
                await asyncio.to_thread(own.kill)
                # A commit of positions may have been under way: then the tasks begin again.
                while not re.search(f"({INPUTS}|restoring task .*) failed", caplog.text):
                    await asyncio.sleep(0.05)
                await asyncio.to_thread(own.start)
                await write(client, f"{name}-in", "a")
                await until(client, f"{name}-out", [("a", 1), ("a", 2), ("b", 1)])
            host = EmbeddedHost(client, counts(name), settings(name, task_timeout_ms=10))
            brief = asyncio.create_task(host.run())
            while host.life.state is not State.RUNNING:
                await asyncio.sleep(0.02)
            await asyncio.to_thread(own.kill)
            with pytest.raises(StreamsError, match=r"task\.timeout\.ms is 10"):
                await brief

    own = BrokerProcess(tmp_path, SETTINGS)
    with caplog.at_level(logging.WARNING, "broker_streams"):
        try:
            own.start()
            asyncio.run(job())
        finally:
            own.close()


def test_a_cluster_without_streams_groups_is_named(tmp_path: Any) -> None:
    """If this fails, an application on an older cluster ends, or waits, without a reason."""
    given = SETTINGS | {"group.coordinator.rebalance.protocols": "classic,consumer"}
    older = BrokerProcess(tmp_path / "broker", given)

    async def job(client: AdminClient) -> None:
        await create(client, "old-in", "old-out")
        text = await ends(client, counts("old"), "old")
        assert "Kafka 4.2 and later" in text

    try:
        older.start()
        run(older, job)
    finally:
        older.close()


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredBroker]:
    made = SecuredBroker(tmp_path_factory.mktemp("secured"), SETTINGS)
    try:
        yield made.start()
    finally:
        made.close()


def granted(kind: ResourceType, name: str, operation: Operation) -> Binding:
    return Binding(kind, name, PatternType.PREFIXED, f"User:{ALICE}", "*", operation, Permission.ALLOW)


ALL_BUT = {
    "group": (ResourceType.GROUP, "GROUP_AUTHORIZATION_FAILED"),
    "transactional id": (ResourceType.TRANSACTIONAL_ID, "TRANSACTIONAL_ID_AUTHORIZATION_FAILED"),
    "topic": (ResourceType.TOPIC, "TOPIC_AUTHORIZATION_FAILED"),
}


@pytest.mark.parametrize("refused", ALL_BUT)
def test_what_an_application_may_not_use_is_named(secured: SecuredBroker, refused: str) -> None:
    """If this fails, an application that lacks an ACL hangs, or ends without the name of the resource."""
    name = f"lacks-{refused.replace(' ', '-')}"
    kind, code = ALL_BUT[refused]

    async def job() -> None:
        login = security_of(client_settings(ALICE, PASSWORD), "the test").login
        async with (
            asyncio.timeout(WAIT_S),
            AdminClient(secured.open_bootstrap, timeout_s=10) as admin,
            AdminClient(secured.bootstrap, timeout_s=10, login=login) as client,
        ):
            await create(admin, f"{name}-in", f"{name}-out")
            await write(admin, f"{name}-in", "a")
            kinds = {ResourceType.GROUP, ResourceType.TRANSACTIONAL_ID, ResourceType.TOPIC} - {kind}
            bindings = [granted(each, name, Operation.ALL) for each in kinds]
            if kind is ResourceType.TOPIC:
                # Only the topic of the results is refused.
                bindings.append(granted(kind, f"{name}-in", Operation.ALL))
            (await admin.acls.create(bindings)).whole()
            text = await ends(client, passed_on(name), name)
        assert code in text
        assert name in text

    asyncio.run(job())
