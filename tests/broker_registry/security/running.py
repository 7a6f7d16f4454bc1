"""Registries with TLS, logins and ACLs as processes, and the users of their cluster."""

from __future__ import annotations

import asyncio
import base64
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from broker_cy.admin import AdminClient
from broker_cy.admin.acls import exactly
from broker_cy.security.acls import (
    CLUSTER_NAME,
    Binding,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)
from broker_registry.security.settings import TOPIC_ACLS
from tests.broker_registry.operations.support import record_of
from tests.support.certificates import Authority, Holder
from tests.support.registry import RegistryProcess
from tests.support.sasl_broker import client_jaas, write_properties
from tests.support.tls_broker import TlsBroker

INT = record_of("x:int")
PASSWORDS = {"registry": "registry-password", "alice": "alice-password", "bob": "bob-password"}
WAIT_S = 60.0
ACLS = {"confluent.schema.registry.authorizer.class": TOPIC_ACLS}


def allow(kind: ResourceType, name: str, principal: str, operation: Operation) -> Binding:
    return Binding(kind, name, PatternType.LITERAL, principal, "*", operation, Permission.ALLOW)


OF_BOB = allow(ResourceType.TOPIC, "orders", "User:bob", Operation.READ)
# The permissions that the registry itself needs, as docs/registry.md lists them.
OF_REGISTRY = [
    *(
        allow(ResourceType.TOPIC, "_schemas", "User:registry", each)
        for each in (Operation.READ, Operation.WRITE, Operation.CREATE, Operation.DESCRIBE_CONFIGS)
    ),
    allow(ResourceType.TRANSACTIONAL_ID, "schema-registry-_schemas", "User:registry", Operation.WRITE),
    allow(ResourceType.CLUSTER, CLUSTER_NAME, "User:registry", Operation.DESCRIBE),
]


def change(broker: TlsBroker, *added: Binding, removed: Binding | None = None) -> None:
    async def run() -> None:
        async with AdminClient(broker.open_bootstrap) as client:
            if added:
                (await client.acls.create(added)).whole()
            if removed is not None:
                (await client.acls.delete([exactly(removed)])).whole()

    asyncio.run(run())


@contextmanager
def running(directory: Path, settings: dict[str, str]) -> Iterator[RegistryProcess]:
    """Run a registry with the settings of a file only."""
    file = directory / "schema-registry.properties"
    write_properties(file, {"kafkastore.topic.replication.factor": "1", **settings})
    registry = RegistryProcess("", directory, [str(file)], listen="")
    try:
        yield registry.wait()
        registry.stop()
    finally:
        registry.kill()


def https(directory: Path, authority: Authority, holder: Holder) -> dict[str, str]:
    """Settings of a listener with https, and of trust in the authority for certificates of clients."""
    return {
        "listeners": "https://127.0.0.1:0",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(holder.write_pem(directory / "registry.pem")),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(authority.write_pem(directory / "authority.pem")),
    }


def basic(user: str, password: str | None = None) -> dict[str, str]:
    text = f"{user}:{PASSWORDS[user] if password is None else password}"
    return {"Authorization": f"Basic {base64.b64encode(text.encode()).decode()}"}


def to_cluster(directory: Path, broker: TlsBroker) -> dict[str, str]:
    """Settings of a login at the brokers, and of clients that log in as the users of the cluster."""
    return {
        "kafkastore.bootstrap.servers": f"SASL_SSL://{broker.sasl_bootstrap}",
        "kafkastore.sasl.mechanism": "SCRAM-SHA-512",
        "kafkastore.sasl.jaas.config": client_jaas("SCRAM-SHA-512", "registry", PASSWORDS["registry"]),
        "kafkastore.ssl.truststore.type": "PEM",
        "kafkastore.ssl.truststore.location": str(broker.authority.write_pem(directory / "brokers.pem")),
        "authentication.method": "BASIC",
        "brokercy.registry.users.mechanism": "SCRAM-SHA-256",
    }


def shown_certificate(url: str, context: ssl.SSLContext | None) -> bytes | None:
    """Return the certificate that a server shows."""
    assert context is not None

    async def run() -> bytes | None:
        host, _, port = url.removeprefix("https://").partition(":")
        _, writer = await asyncio.open_connection(host, int(port), ssl=context)
        found: bytes | None = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        writer.close()
        return found

    return asyncio.run(run())
