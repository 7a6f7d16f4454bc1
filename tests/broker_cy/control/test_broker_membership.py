"""A broker as a member of its cluster: the state that it leaves behind when it stops."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from broker_cy.control.membership import broker_membership
from broker_cy.control.membership.broker_membership import BrokerMembership
from broker_cy.control.membership.registration_refused import RegistrationRefused
from broker_cy.core import supervision
from broker_cy.metadata.image import RESOURCE_TOPIC, MetadataImage
from broker_cy.wire import messages
from tests.broker_cy.handlers.metadata_broker import MetadataBroker, run, until


class Silent:
    """A controller that never answers."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.cancelled: list[str] = []

    async def run(self, operation: Any, request: Any, *_: Any) -> Any:
        self.asked.append(type(request).__name__)
        try:
            await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            self.cancelled.append(type(request).__name__)
            raise


def last_reason(caplog: pytest.LogCaptureFixture) -> str:
    """Return the reason for which the broker waits, from the newest log line."""
    return str(caplog.records[-1].fields["reason"]) if caplog.records else ""  # type: ignore[attr-defined]


@pytest.mark.parametrize("beats", [True, False])
def test_a_stop_ends_reports_and_heartbeats(beats: bool) -> None:
    """If this fails, a broker that stops while it reports the end of another shard leaves a task without connections
    behind.
    """

    async def work() -> None:
        controller = Silent()
        config = MetadataBroker(Path("/nowhere")).config
        loop = asyncio.get_running_loop()
        membership = BrokerMembership(config, controller, loop, "id", UUID(int=1), MetadataImage, dict)
        if beats:
            membership.run()
        membership.report_end(2, 5)
        await asyncio.sleep(0)
        expected = ["BrokerHeartbeatRequest"] * (2 if beats else 1)
        assert controller.asked == expected
        await membership.stop()
        assert controller.cancelled == expected
        assert asyncio.all_tasks() == {asyncio.current_task()}

    run(work)


def test_what_a_broker_waits_for_is_in_its_log(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """If this fails, a broker that is not registered, or stays fenced, waits without a word."""
    monkeypatch.setattr(broker_membership, "NOTE_S", 0.001)

    async def work() -> None:
        config = MetadataBroker(Path("/nowhere")).config
        loop = asyncio.get_running_loop()
        membership = BrokerMembership(
            config, Silent(), loop, "id", UUID(int=1), MetadataImage, dict, lambda: "host:9093: connection refused"
        )
        for work, said in (
            (membership.register({}, {}), "this broker is not registered yet"),
            (membership.unfenced(), "this broker is registered, and still fenced"),
        ):
            waiting = asyncio.ensure_future(work)
            await until(lambda said=said: said in caplog.text)  # type: ignore[misc]
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
        assert last_reason(caplog).startswith(
            "no active controller was found. No controller answers at host:9093: connection refused."
        )
        await membership.stop()
        assert asyncio.all_tasks() == {asyncio.current_task()}

    run(work)


class Defective:
    """A controller whose first answers are unexpected."""

    def __init__(self, failures: int) -> None:
        self.failures = failures
        self.asked = 0

    async def run(self, *_: Any) -> Any:
        self.asked += 1
        if self.asked <= self.failures:
            raise ValueError(f"999 is not a valid ErrorCode ({self.asked})")
        return messages.BrokerHeartbeatResponse(is_fenced=False)


def test_heartbeats_go_on_after_a_defect(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """If this fails, one answer that the broker does not understand ends its heartbeats without a line in the log, and
    its session with them.
    """
    monkeypatch.setattr(supervision, "BACKOFF_MS_MIN", 1)

    async def work() -> None:
        config = MetadataBroker(Path("/nowhere")).config
        loop = asyncio.get_running_loop()
        controller = Defective(2)
        membership = BrokerMembership(config, controller, loop, "id", UUID(int=1), MetadataImage, dict)
        membership.run()
        async with asyncio.timeout(30):
            await membership.unfenced()
        assert controller.asked == 3
        assert caplog.text.count("heartbeats of this broker failed, and begins again") == 2
        assert "999 is not a valid ErrorCode (2)" in caplog.text
        await membership.stop()
        assert asyncio.all_tasks() == {asyncio.current_task()}

    run(work)


@pytest.mark.parametrize("is_tiered", [True, False])
def test_a_new_broker_knows_all_topics_before_it_registers(
    is_tiered: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """If this fails, a cluster keeps the registration of a broker that has refused to serve its topics, or a broker
    that waits for the metadata log says that it has found no controller.
    """
    monkeypatch.setattr(broker_membership, "NOTE_S", 0.001)
    monkeypatch.setattr(broker_membership, "URGENT_S", 0.001)

    async def work() -> None:
        controller, image, missing = Silent(), MetadataImage(), [-1]
        config = MetadataBroker(Path("/nowhere")).config
        loop = asyncio.get_running_loop()
        membership = BrokerMembership(
            config, controller, loop, "id", UUID(int=1), lambda: image, dict, missing_records=lambda: missing[0]
        )
        registering = asyncio.ensure_future(membership.register({}, {}))
        for count, said in ((-1, "no active controller was found"), (7, "7 records of the metadata log")):
            missing[0] = count
            await until(lambda said=said: said in last_reason(caplog))  # type: ignore[misc]
            assert controller.asked == []
        if is_tiered:
            image.configs.set(RESOURCE_TOPIC, "t", "remote.storage.enable", "true")
        missing[0] = 0
        if is_tiered:
            with pytest.raises(RegistrationRefused, match="it has topics with records in remote storage"):
                await registering
        else:
            await until(lambda: controller.asked == ["BrokerRegistrationRequest"])
            registering.cancel()
            await asyncio.gather(registering, return_exceptions=True)
        assert controller.asked == ([] if is_tiered else ["BrokerRegistrationRequest"])

    run(work)
