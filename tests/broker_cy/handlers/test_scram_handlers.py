"""AlterUserScramCredentials and DescribeUserScramCredentials, alone and against Apache Kafka on the same directory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bench.launch.nodes import CLUSTER_ID
from broker_cy.core.errors import ErrorCode
from broker_cy.handlers import load_handlers
from broker_cy.metadata.records import VersionedRecord
from broker_cy.storage_tool import command as storage_tool
from broker_cy.wire import messages
from tests.broker_cy.controller.cluster import Records
from tests.broker_cy.handlers.metadata_broker import MetadataBroker, run, with_broker
from tests.support import needs, recorded
from tests.support.cluster import ask
from tests.support.kafka_peer import KafkaPeer

load_handlers()
Alter = messages.AlterUserScramCredentialsRequest
Describe = messages.DescribeUserScramCredentialsRequest
SHA_256, SHA_512 = 1, 2
ALICE = "SCRAM-SHA-512=[name=alice,iterations=8192,salt=N3E=,saltedpassword=YCE=]"


def upsert(user: str, mechanism: int = SHA_256, iterations: int = 4_096, salted: bytes = b"salted") -> Any:
    return Alter.ScramCredentialUpsertion(
        name=user, mechanism=mechanism, iterations=iterations, salt=b"salt", salted_password=salted
    )


def delete(user: str, mechanism: int = SHA_256) -> Any:
    return Alter.ScramCredentialDeletion(name=user, mechanism=mechanism)


def alter(*changes: Any) -> Alter:
    deletions = [each for each in changes if isinstance(each, Alter.ScramCredentialDeletion)]
    return Alter(deletions=deletions, upsertions=[each for each in changes if each not in deletions])


def describe(*users: str) -> Describe:
    return Describe(users=[Describe.UserName(name=user) for user in users] if users else None)


REQUESTS: list[Alter | Describe] = [
    describe(),
    alter(upsert("bob"), upsert("carol", SHA_512, 16_384), upsert("dan", iterations=4_095), upsert("eve", 3)),
    alter(upsert(""), upsert("dan", iterations=16_385), delete("nobody"), delete("alice"), delete("bob", 0)),
    alter(upsert("eve", salted=b"")),
    # A user may occur only once in a request, whatever the mechanism; an error leaves the user unchanged.
    alter(upsert("bob", iterations=8_192), upsert("bob", SHA_512), delete("carol", SHA_512), upsert("carol")),
    describe("bob", "alice", "nobody", "carol", "carol"),
    alter(upsert("bob", SHA_512), delete("alice", SHA_512)),
    alter(upsert("bob", SHA_512, 5_000), delete("carol", SHA_512)),
    describe(),
    Describe(users=[]),
]


def plain(response: Any) -> Any:
    """The results by user: their order has no meaning, nor has that of mechanisms."""
    found = []
    for result in response.results:
        infos = sorted((each.mechanism, each.iterations) for each in getattr(result, "credential_infos", ()))
        found.append((result.user, ErrorCode(result.error_code).name, result.error_message, infos))
    return getattr(response, "error_code", 0), getattr(response, "error_message", None), sorted(found)


def without_secret(found: Any) -> Any:
    """Without the record of scram_ops.SECRET, which Kafka lists as a user without a name."""
    code, message, results = found
    return code, message, [each for each in results if each[0] or each[1] != "NONE"]


class FormattedHere(KafkaPeer):
    """A node of Kafka whose directory our tool formats."""

    def format(self) -> None:
        self._write_properties()
        arguments = ["format", "-c", str(self._properties), "-t", CLUSTER_ID, "--add-scram", ALICE]
        assert storage_tool.run(arguments) == 0

    def prepare(self) -> None:
        self.format()
        super().prepare()


@pytest.mark.full
@needs.kafka
def test_kafka_gives_the_recorded_answers(tmp_path: Path) -> None:
    """If this fails, our answers are compared with those that no Kafka gives, or Kafka lacks the credentials that our
    tool has written.
    """
    kafka = FormattedHere(tmp_path / "kafka")
    try:
        kafka.start()
        theirs = [without_secret(plain(ask(kafka.port, request, response_of(request)))) for request in REQUESTS]
    finally:
        kafka.close()
    recorded.check("scram", theirs)


def test_the_same_answers_as_kafka(tmp_path: Path) -> None:
    """If this fails, kafka-configs.sh shows or changes other credentials here than with Kafka."""
    node = FormattedHere(tmp_path / "ours")
    node.choose_ports()
    node.format()
    ours = []

    async def work(broker: MetadataBroker) -> None:
        ours.extend([plain(await broker.call(request, 0)) for request in REQUESTS])

    with_broker(node.data_dir, work)
    theirs = recorded.of_kafka("scram")
    for request, one, other in zip(REQUESTS, recorded.as_recorded(ours), theirs, strict=True):
        assert one == other, request
    assert ours[0][2] == [("alice", "NONE", "", [(SHA_512, 8_192)])]


def response_of(request: Any) -> type[Any]:
    if isinstance(request, Alter):
        return messages.AlterUserScramCredentialsResponse
    return messages.DescribeUserScramCredentialsResponse


def test_credentials_survive_a_restart(tmp_path: Path) -> None:
    """If this fails, a user who could log in before a restart cannot do so after it."""

    async def work() -> None:
        for known in ([], [("bob", "NONE", "", [(SHA_256, 4_096)])]):
            async with MetadataBroker(tmp_path) as broker:
                assert plain(await broker.call(describe(), 0))[2] == known
                assert plain(await broker.call(alter(upsert("bob")), 0))[2] == [("bob", "NONE", None, [])]

    run(work)


def test_old_clusters_have_no_credentials(tmp_path: Path) -> None:
    """If this fails, a controller of an older version of Kafka reads a record that it does not know."""

    async def work(broker: MetadataBroker) -> None:
        record = messages.FeatureLevelRecord(name="metadata.version", feature_level=10)
        await broker.controller.submit(Records(VersionedRecord(record)))
        offset = broker.image.offset
        (result,) = (await broker.call(alter(upsert("bob")), 0)).results
        assert result.error_code == ErrorCode.UNSUPPORTED_VERSION
        assert broker.image.offset == offset

    with_broker(tmp_path, work)


def test_an_error_of_all_is_that_of_each_user(tmp_path: Path) -> None:
    """If this fails, a client whose broker finds no controller considers its change done."""

    async def work() -> None:
        async with MetadataBroker(tmp_path) as broker:
            pass
        response = await broker.call(alter(upsert("bob"), delete("alice")), 0)
        assert [(each.user, each.error_code) for each in response.results] == [
            ("alice", ErrorCode.NOT_CONTROLLER),
            ("bob", ErrorCode.NOT_CONTROLLER),
        ]

    run(work)
