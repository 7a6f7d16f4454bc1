"""The addresses under which a controller is known to others."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from broker_cy.config import BrokerConfig
from broker_cy.quorum.voters import Endpoint
from broker_cy.server.controller_listeners import ControllerListeners


@pytest.mark.parametrize(
    ("listener", "host"),
    [("0.0.0.0", "here"), ("[::]", "here"), ("", "here"), ("10.0.0.1", "10.0.0.1"), ("[::1]", "::1")],
)
def test_all_interfaces_are_no_address(listener: str, host: str) -> None:
    """If this fails, the voters in the metadata log have an address that leads every node to itself."""
    config = BrokerConfig.from_properties(
        {
            "node.id": "1",
            "log.dirs": "unused",
            "listeners": f"PLAINTEXT://127.0.0.1:9092,CONTROLLER://{listener}:9093",
            "advertised.listeners": "PLAINTEXT://127.0.0.1:9092",
        }
    )
    broker: Any = SimpleNamespace(config=config)
    seams: Any = SimpleNamespace(network=SimpleNamespace(own_name=lambda: "here"))
    assert ControllerListeners(broker, seams).endpoints() == (Endpoint("CONTROLLER", host, 9093),)
