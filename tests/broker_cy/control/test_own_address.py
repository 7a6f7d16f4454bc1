"""A broker with an unreachable address: it does not start if that is certain, and only then."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import uvloop

from broker_cy.client.address import Address
from broker_cy.client.outgoing import MACHINE, Outgoing, is_own
from broker_cy.control.membership import own_address
from broker_cy.control.membership.own_address import check_own_address
from broker_cy.control.membership.registration_refused import RegistrationRefused
from broker_cy.core.clock import MACHINE_CLOCK
from tests.support.certificates import Authority

LISTENS = Address("127.0.0.1", 9092)
ADVERTISED = Address("broker.example", 9093)


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_address, "AGAIN_S", 0.01)
    monkeypatch.setattr(own_address, "REFUSED_S", 0.05)


def machine(connect: Callable[[], None], *, owns: bool = True) -> Outgoing:
    """A machine on which each attempt to connect calls `connect`, and which has the address itself or not."""

    async def attempt(protocol: asyncio.BufferedProtocol, host: str, port: int) -> None:
        connect()

    async def is_ours(host: str) -> bool:
        assert host == ADVERTISED.host
        return owns

    return Outgoing(attempt, MACHINE_CLOCK, is_ours)


def refuse() -> None:
    raise ConnectionRefusedError


def check(outgoing: Outgoing, *, advertised: Address = ADVERTISED, has_others: bool = True) -> None:
    asyncio.run(check_own_address("PLAINTEXT", advertised, LISTENS, outgoing, has_others=has_others))


def test_what_this_machine_refuses_is_certain() -> None:
    """If this fails, a broker with a mistyped advertised address leads partitions that no client can reach."""
    with pytest.raises(RegistrationRefused, match=r"advertised at broker\.example:9093.*listens at 127\.0\.0\.1:9092"):
        check(machine(refuse))


def test_the_address_of_the_listener_is_not_tried() -> None:
    """If this fails, each start of a broker connects to itself."""
    check(machine(lambda: pytest.fail("it was tried")), advertised=LISTENS)


@pytest.mark.parametrize("case", ["another machine", "alone", "no answer", "unknown name"])
def test_what_decides_nothing_is_logged(case: str, caplog: pytest.LogCaptureFixture) -> None:
    """If this fails, a broker behind a NAT or in a container does not start, or does not log a wrong address."""

    def fail() -> None:
        match case:
            case "no answer":
                raise TimeoutError
            case "unknown name":
                raise OSError(-2, "Name or service not known")
        refuse()

    check(machine(fail, owns=case != "another machine"), has_others=case != "alone")
    (record,) = caplog.records
    assert record.levelno == logging.ERROR
    fields = getattr(record, "fields")  # noqa: B009
    assert (fields["listener"], str(fields["address"])) == ("PLAINTEXT", "broker.example:9093")
    assert "advertised.listeners" in fields["remedy"]


def test_a_proxy_may_start_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, a broker that starts before its proxy has to be restarted."""
    # The second attempt has to come within it, also on a busy machine.
    monkeypatch.setattr(own_address, "REFUSED_S", 30.0)

    async def work() -> None:
        server: list[asyncio.Server] = []

        async def attempt(protocol: asyncio.BufferedProtocol, host: str, port: int) -> None:
            if not server:
                server.append(await asyncio.start_server(lambda reader, writer: writer.close(), "127.0.0.1", 0))
                raise ConnectionRefusedError
            await MACHINE.connect(protocol, *server[0].sockets[0].getsockname())

        async def ours(host: str) -> bool:
            return True

        outgoing = Outgoing(attempt, MACHINE_CLOCK, ours)
        await check_own_address("PLAINTEXT", ADVERTISED, LISTENS, outgoing, has_others=True)
        server[0].close()
        await server[0].wait_closed()

    asyncio.run(work())


def test_the_attempt_ends_after_its_handshake(tmp_path: Path) -> None:
    """If this fails, the log of each start of a broker with TLS warns of a handshake that failed: the broker's own."""
    authority = Authority()
    served = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    served.load_cert_chain(authority.issue("broker").write_pem(tmp_path / "broker.pem"))
    trusting = ssl.create_default_context(cafile=str(authority.write_pem(tmp_path / "authority.pem")))

    async def work() -> None:
        shaken = asyncio.Event()
        # uvloop, as brokers have: it reports a connection after its handshake.
        server = await asyncio.start_server(lambda reader, writer: shaken.set(), "127.0.0.1", 0, ssl=served)
        async with server:
            address = Address(*server.sockets[0].getsockname())
            await check_own_address("SSL", address, LISTENS, replace(MACHINE, tls=lambda: trusting), has_others=True)
            await asyncio.wait_for(shaken.wait(), 30)

    uvloop.run(work())


@pytest.mark.parametrize(
    ("host", "expected"), [("127.0.0.1", True), ("localhost", True), ("192.0.2.1", False), ("no.such.invalid", False)]
)
def test_addresses_of_this_machine(host: str, expected: bool) -> None:
    """If this fails, the refusal of another machine counts as certain."""
    assert asyncio.run(is_own(host)) is expected
