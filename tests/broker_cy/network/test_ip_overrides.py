"""Hosts in max.connections.per.ip.overrides."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path
from typing import Any, cast

import pytest

from broker_cy.config import BrokerConfig, ConfigError
from broker_cy.network.ip_overrides import NAME, IpOverrides
from broker_cy.network.sockets import SocketNetwork
from tests.broker_cy.coordinator_services.group_broker import GroupBroker, run

HOSTS = {"apps": ["192.0.2.1", "2001:db8::1"], "198.51.100.7": ["198.51.100.7"]}


class Names:
    """A network that knows HOSTS."""

    async def addresses(self, host: str) -> list[str]:
        if host not in HOSTS:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return HOSTS[host]


def overrides(setting: str) -> IpOverrides:
    config = BrokerConfig.from_properties({"node.id": "1", NAME: setting})
    return IpOverrides(config, cast(Any, Names()))


def test_a_host_counts_for_each_of_its_addresses() -> None:
    """If this fails, a limit for a host has no effect, and one client takes the connections of all others."""
    found = overrides("apps:7,198.51.100.7:3")
    asyncio.run(found.resolve())
    assert found.limits == {"192.0.2.1": 7, "2001:db8::1": 7, "198.51.100.7": 3}


def test_a_host_without_an_address_is_refused(caplog: pytest.LogCaptureFixture) -> None:
    """If this fails, a misspelled host leaves its clients without their limit, without a message."""
    found = overrides("apps:7,aps:3,elsewhere:1")
    reason = (
        "setting max.connections.per.ip.overrides: these hosts have no address: aps \\(Name or service not known\\), "
        "elsewhere"
    )
    with pytest.raises(ConfigError, match=reason):
        asyncio.run(found.resolve())
    # A change while the broker runs leaves the limits as they were.
    found.limits = {"192.0.2.9": 1}
    asyncio.run(found.follow())
    assert found.limits == {"192.0.2.9": 1}
    assert "the limits of connections by address stay as they were" in caplog.text


def test_a_host_that_is_no_name_is_refused(caplog: pytest.LogCaptureFixture) -> None:
    """If this fails, a typing error in a host ends the start with a traceback, and a change at run time unnoticed."""
    found = overrides(f"a..b:5,{'x' * 70}:3")
    found._network = SocketNetwork()
    with pytest.raises(ConfigError) as caught:
        asyncio.run(found.resolve())
    message = str(caught.value)
    assert message.startswith("setting max.connections.per.ip.overrides: these hosts have no address: a..b (")
    assert "x" * 70 in message
    assert message.count("each part of a name between dots has 1 to 63 characters") == 2
    asyncio.run(found.follow())
    assert "the limits of connections by address stay as they were" in caplog.text


def test_an_unexpected_failure_of_a_change_is_reported_and_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If this fails, a defect while names are resolved leaves the old limits without a word."""

    async def work() -> None:
        async with GroupBroker(tmp_path) as broker:
            reported: list[dict[str, Any]] = []
            asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context))
            resolved = asyncio.Event()

            async def addresses(_: object, host: str) -> list[str]:
                if not reported:
                    raise RuntimeError("planted")
                resolved.set()
                return ["192.0.2.7"]

            monkeypatch.setattr(SocketNetwork, "addresses", addresses)
            broker.server.config.apply_dynamic({}, {NAME: "apps:5"})
            await asyncio.wait_for(resolved.wait(), 20)
            assert "limits of connections" in reported[0]["message"]

    run(work)


def test_a_broker_resolves_hosts_when_it_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same for a broker, by the machine's own resolver; it does not start with a name that is not known."""

    async def work() -> None:
        async with GroupBroker(tmp_path / "good", {NAME: "localhost:5"}) as broker:
            assert broker.server.broker.ip_overrides.limits["127.0.0.1"] == 5
        monkeypatch.setattr(SocketNetwork, "addresses", Names.addresses)
        with pytest.raises(ConfigError, match="nowhere"):
            await GroupBroker(tmp_path / "bad", {NAME: "nowhere:5"}).server.start()

    run(work)
