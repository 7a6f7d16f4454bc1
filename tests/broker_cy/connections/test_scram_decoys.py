"""SCRAM decoys: before it logs in, a client cannot find out which users exist, on any node and after a restart."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

from broker_cy.connections.login import TYPICAL_S, ScramUsers
from broker_cy.controller import scram_ops
from broker_cy.core import scram
from broker_cy.core.randomness import MACHINE_RANDOMNESS
from broker_cy.handlers import load_handlers
from broker_cy.metadata.image import MetadataImage
from broker_cy.metadata.records import VersionedRecord
from broker_cy.metadata.replay import replay
from broker_cy.storage_tool import scram_option
from tests.broker_cy.controller.cluster import Records
from tests.broker_cy.handlers.metadata_broker import MetadataBroker, run, with_broker
from tests.broker_cy.handlers.test_scram_handlers import alter, delete, describe, plain, upsert

load_handlers()
SHA_256, SHA_512 = scram.MECHANISMS


def salt(broker: MetadataBroker, user: str = "nobody") -> bytes:
    """Return the salt that a node returns right after its start."""
    return ScramUsers(cast(Any, broker)).decoys().of(SHA_512, user).salt


def test_the_salt_of_an_unknown_user_is_the_same_after_a_restart_and_on_other_nodes(tmp_path: Path) -> None:
    """If this fails, a client that asks twice, or asks two brokers, can find out which users exist."""

    async def work() -> None:
        async with MetadataBroker(tmp_path) as broker:
            await broker.call(alter(upsert("bob")), 0)
            first = salt(broker)
            assert salt(broker) == first
            assert salt(broker, "other") != first
            # Also if users come and go, or change their passwords.
            await broker.call(alter(upsert("bob", salted=b"other"), upsert("alice")), 0)
            await broker.call(alter(delete("bob")), 0)
            assert salt(broker) == first
        async with MetadataBroker(tmp_path) as broker:
            assert salt(broker) == first

    run(work)


def test_the_secret_is_no_user(tmp_path: Path) -> None:
    """If this fails, the secret shows up as a user, or a client can log in as this user."""

    async def work(broker: MetadataBroker) -> None:
        await broker.call(alter(delete("bob")), 0)
        assert scram_ops.SECRET not in broker.image.kept
        await broker.call(alter(upsert("bob")), 0)
        secret = broker.image.kept[scram_ops.SECRET].server_key
        assert len(secret) == scram_ops.SECRET_BYTES
        assert [name for name, *_ in plain(await broker.call(describe(), 0))[2]] == ["bob"]
        for request in (alter(upsert("")), alter(delete("")), describe("")):
            ((_, error, _, _),) = plain(await broker.call(request, 0))[2]
            assert error != "NONE"
        assert broker.image.kept[scram_ops.SECRET].server_key == secret
        # The secret does not change the iterations that decoys show.
        await broker.call(alter(upsert("bob", iterations=8_192)), 0)
        assert ScramUsers(cast(Any, broker)).decoys().of(SHA_256, "nobody").iterations == 8_192

    with_broker(tmp_path, work)


def test_credentials_of_kafka_have_a_secret_too(tmp_path: Path) -> None:
    """If this fails, in a cluster with Kafka's controllers each node returns another decoy salt, or a salt that any
    client can compute.
    """

    async def work(broker: MetadataBroker) -> None:
        users = ScramUsers(cast(Any, broker))
        before = users.decoys().of(SHA_256, "nobody").salt
        record = scram_ops.credential(SHA_256, "bob", b"salt", b"salted", 4_096)
        await broker.controller.submit(Records(record))
        assert salt(broker) == salt(broker) != before
        # A running node sees the credential at its next look, and the secret of a cluster immediately.
        broker.clock.advance_ms(int(TYPICAL_S * 1_000))
        assert users.decoys().of(SHA_512, "nobody").salt == salt(broker)
        await broker.controller.submit(Records(scram_ops.secret_record(b"x" * 32)))
        assert users.decoys().of(SHA_512, "nobody").salt == salt(broker)

    with_broker(tmp_path, work)


def test_a_formatted_cluster_has_the_secret() -> None:
    """If this fails, any client can find out whether a name is the first user of a cluster."""
    image = MetadataImage()
    for each in scram_option.records_of(["SCRAM-SHA-256=[name=a,password=b]"], MACHINE_RANDOMNESS):
        assert isinstance(each, VersionedRecord)
        replay(image, each.message)
    secret = scram_ops.secret_of(image.kept)
    assert secret is not None
    assert secret == image.kept[scram_ops.SECRET].server_key
    assert scram_option.records_of([], MACHINE_RANDOMNESS) == []
