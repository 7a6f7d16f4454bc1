"""The screens of mirrors, with the status of a process and mirror topics of a broker."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace

import pytest

from broker_cy.admin import AdminClient
from broker_cy.admin.address import parse_addresses
from broker_cy.admin.configs import ConfigResource, ResourceType
from broker_cy.admin.topics import NewTopic
from broker_cy.client.address import Address
from tests.admin_tui.conftest import Terminal, drive, entry_of
from tests.support.broker import QUICK, BrokerProcess
from tests.support.mirror_page import flow_of, serving

SIZE = (160, 40)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker of its own: other screens show all topics of theirs."""
    found = BrokerProcess(tmp_path_factory.mktemp("mirrors-broker"), QUICK)
    try:
        yield found.start()
    finally:
        found.close()


def run(broker: BrokerProcess, topic: str, *, create: bool) -> dict[str, str | None]:
    """Create a mirror topic; or return its settings."""

    async def inner() -> dict[str, str | None]:
        async with AdminClient(parse_addresses(broker.bootstrap)) as client:
            if create:
                configs: dict[str, str | None] = {"brokercy.mirror.link": "east"}
                (await client.topics.create([NewTopic(topic, 2, configs=configs)])).whole()
            resource = ConfigResource(ResourceType.TOPIC, topic)
            found = (await client.configs.describe([resource])).whole()[resource]
            return {each.name: each.value for each in found if each.name.startswith("brokercy.mirror.")}

    return asyncio.run(inner())


def test_a_flow_and_its_faults_are_shown(broker: BrokerProcess) -> None:
    """If this fails, an operator does not see that a flow is behind, or what it does not copy."""

    async def job(terminal: Terminal) -> None:
        await terminal.command("mirrors")
        await terminal.goes_to("mirrors")
        await terminal.shows("A->B", "running", "2.5 s", "127.0.0.1:1 does not answer")
        await terminal.press("enter")
        await terminal.goes_to("mirror")
        await terminal.shows("mirrors > A->B", "A.orders", "the target has no partition 3", "B.invoices")
        await terminal.shows("the target was away", "sync.topic.acls")
        # The processes run the flow: nothing of it can be paused here.
        assert not {"Pause", "Promote"} & set(terminal.lines()[-1].split())
        await terminal.press("escape")
        await terminal.goes_to("mirrors")
        await terminal.command("mirror absent")
        await terminal.goes_to("mirror")
        await terminal.shows("The cluster has no such flow.")

    with serving(flow_of()) as address:
        entry = replace(entry_of(broker.bootstrap), mirrors=(address, Address("127.0.0.1", 1)))
        drive(entry, job, size=SIZE)


def test_a_mirror_topic_is_paused_resumed_and_promoted(broker: BrokerProcess, name: str) -> None:
    """If this fails, a failover needs another program; or a topic is promoted without a question."""
    run(broker, name, create=True)

    async def job(terminal: Terminal) -> None:
        await terminal.command("mirror east")
        await terminal.goes_to("mirror")
        await terminal.shows(f"{name}", "Pause", "Promote")
        await terminal.press("p")
        await terminal.shows("1 mirror topic: the leaders stop fetching", "brokercy.mirror.paused=true")
        await terminal.press("right", "enter")
        # A message of the act ends by itself.
        await terminal.shows("state paused")
        await terminal.press("p")
        await terminal.shows("paused already")
        await terminal.press("escape", "r")
        await terminal.shows("the leaders fetch again")
        await terminal.press("right", "enter")
        await terminal.shows("state starting")
        await terminal.press("o")
        await terminal.shows(f"Promote {name}", "follow link east no longer")
        await terminal.type(name)
        await terminal.press("enter")
        await terminal.shows("The cluster has no such flow.")

    drive(broker.bootstrap, job, size=SIZE)
    found = run(broker, name, create=False)
    assert (found["brokercy.mirror.link"], found["brokercy.mirror.paused"]) == ("", "false")


def test_nothing_is_changed_in_readonly_mode(broker: BrokerProcess, name: str) -> None:
    """If this fails, a console that was started to look promotes a mirror."""
    before = run(broker, name, create=True)

    async def job(terminal: Terminal) -> None:
        await terminal.command("mirror east")
        await terminal.goes_to("mirror")
        await terminal.shows(f"{name}")
        await terminal.press("o", "p")
        await terminal.hides("Promote " + name)

    drive(broker.bootstrap, job, size=SIZE, is_readonly=True)
    assert run(broker, name, create=False) == before
