"""One broker with TLS, logins and ACLs for the registries of this directory."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from broker_cy.security.acls import Operation, ResourceType
from tests.broker_registry.security.running import OF_BOB, OF_REGISTRY, PASSWORDS, allow, change
from tests.support.secured_broker import AUTHORIZED
from tests.support.tls_broker import TlsBroker


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TlsBroker]:
    """A broker with ACLs, whose open listener is that of a super user."""
    found = TlsBroker(tmp_path_factory.mktemp("broker"), AUTHORIZED)
    try:
        found.start()
        for name, password in PASSWORDS.items():
            found.add_user(name, password)
        change(found, *OF_REGISTRY, allow(ResourceType.TOPIC, "orders", "User:alice", Operation.WRITE), OF_BOB)
        yield found
    finally:
        found.close()
