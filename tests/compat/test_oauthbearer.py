"""Third-party clients log in with tokens of an OAuth provider, and Apache Kafka accepts and refuses the same tokens."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import aiokafka
import pytest
from aiokafka.abc import AbstractTokenProvider as AioTokens
from aiokafka.errors import KafkaError as AioKafkaError
from confluent_kafka import KafkaError, Producer
from kafka import KafkaProducer
from kafka.errors import KafkaError as PythonKafkaError
from kafka.net.sasl.oauth import AbstractTokenProvider as PythonTokens

from bench.launch import kafka_dist
from bench.launch.nodes import broker_command
from broker_cy.launch.processes import run
from broker_cy.security.sasl.oauthbearer import OAuthBearerClient
from broker_cy.wire import messages as m
from tests.compat.differential.client import CLOSED, Client
from tests.support import needs
from tests.support.broker import target_is_kafka
from tests.support.oauth_provider import AUDIENCE, ISSUER, Provider, claims, ec_key, key_set, rsa_key, token
from tests.support.sasl_broker import KafkaSaslPeer, SaslBroker, write_properties
from tests.support.wait import until

pytestmark = pytest.mark.skipif(target_is_kafka(), reason="starts the brokers itself")
TIMEOUT_S = 60.0
MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
HANDLER = "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler"
LOGIN_HANDLER = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler"
ALLOWED = "org.apache.kafka.sasl.oauthbearer.allowed.urls"
RSA, EC, OTHER = rsa_key("rsa"), ec_key("ec"), rsa_key("rsa")


def settings(url: str) -> dict[str, str]:
    prefix = "listener.name.sasl_plaintext."
    return {
        f"{prefix}sasl.enabled.mechanisms": "OAUTHBEARER",
        f"{prefix}oauthbearer.sasl.jaas.config": f"{MODULE} required ;",
        f"{prefix}oauthbearer.sasl.server.callback.handler.class": HANDLER,
        f"{prefix}oauthbearer.sasl.oauthbearer.jwks.endpoint.url": url,
        f"{prefix}oauthbearer.sasl.oauthbearer.expected.audience": AUDIENCE,
        "sasl.oauthbearer.expected.issuer": ISSUER,
    }


class Ours(SaslBroker):
    def __init__(self, directory: Path, url: str, more: Mapping[str, str] | None = None) -> None:
        super().__init__(directory, {**settings(url), "brokercy.sasl.oauthbearer.allowed.urls": url, **(more or {})})


class Theirs(KafkaSaslPeer):
    def __init__(self, directory: Path, url: str) -> None:
        super().__init__(directory, settings(url))
        self.jvm_flags = (*self.jvm_flags, f"-D{ALLOWED}={url}")


def log_in(broker: Any, text: str) -> tuple[Client, Any]:
    """A client, and the last answer to its login."""
    client, exchange = Client((broker.host, broker.port)), OAuthBearerClient(text)
    assert client.ask(m.SaslHandshakeRequest(mechanism="OAUTHBEARER"), 1).error_code == 0
    answer = client.ask(m.SaslAuthenticateRequest(auth_bytes=exchange.first()), 2)
    if answer.error_code == 0 and not exchange.is_complete and (more := exchange.step(answer.auth_bytes)) is not None:
        answer = client.ask(m.SaslAuthenticateRequest(auth_bytes=more), 2)
    return client, answer


TOKENS = {
    "RS256": token(RSA),
    "PS512": token(RSA, algorithm="PS512"),
    "ES256": token(EC, algorithm="ES256"),
    "another key": token(OTHER),
    "an unknown key": token(OTHER, kid="unknown"),
    "expired": token(RSA, claims(exp=time.time() - 3_600)),
    "no exp": token(RSA, claims(exp=None)),
    "no iat": token(RSA, claims(iat=None)),
    "later": token(RSA, claims(nbf=time.time() + 86_400)),
    "no audience": token(RSA, claims(aud=None)),
    "another audience": token(RSA, claims(aud="x")),
    "two audiences": token(RSA, claims(aud=["x", AUDIENCE])),
    "another issuer": token(RSA, claims(iss="x")),
    "no subject": token(RSA, claims(sub=None)),
    "no scope": token(RSA, claims(scope=None)),
    "empty scope": token(RSA, claims(scope="")),
    "scopes": token(RSA, claims(scope=["a", "b"])),
    "scope twice": token(RSA, claims(scope=["a", "a"])),
    "a changed signature": token(RSA)[:-6] + "AAAAAA",
    "no signature": token(RSA).rpartition(".")[0] + ".",
    "no token": "x",
}


def verdicts(broker: Any) -> dict[str, tuple[int, str | None, bool]]:
    found = {}
    for what, text in TOKENS.items():
        _, answer = log_in(broker, text)
        found[what] = (answer.error_code, answer.error_message, answer.session_lifetime_ms > 0)
    return found


@pytest.mark.full
@needs.kafka
def test_the_same_verdicts_as_kafka(tmp_path: Path) -> None:
    """If this fails, a token that Kafka accepts is refused here, or one that it refuses gives access."""
    file = tmp_path / "keys.json"
    file.write_bytes(key_set(RSA, EC))
    found = []
    for kind in (Ours, Theirs):
        broker = kind(tmp_path / kind.__name__, file.as_uri())
        try:
            broker.start()
            found.append(verdicts(broker))
        finally:
            broker.close()
    assert found[0] == found[1]
    assert {what for what, (code, *_) in found[0].items() if code == 0} == {
        "RS256", "PS512", "ES256", "two audiences", "no scope", "scopes",
    }  # fmt: skip


@pytest.fixture(scope="module")
def provider() -> Iterator[Provider]:
    with Provider(key_set(RSA, EC)) as found:
        yield found


@pytest.fixture(scope="module")
def broker(provider: Provider, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ours]:
    found = Ours(tmp_path_factory.mktemp("oauth"), provider.url)
    try:
        yield found.start()
    finally:
        found.close()


GOOD, BAD = token(RSA), token(OTHER)


@pytest.mark.parametrize("text", [GOOD, BAD], ids=["good", "bad"])
def test_librdkafka(broker: Ours, topic: str, text: str) -> None:
    """If this fails, clients on librdkafka cannot log in, or can without a valid token."""
    errors: list[KafkaError] = []
    producer = Producer(
        {
            "bootstrap.servers": broker.bootstrap,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "OAUTHBEARER",
            "oauth_cb": lambda _: (text, time.time() + 3_600, "alice", {"traceId": "1"}),
            "error_cb": errors.append,
        }
    )
    if text is GOOD:
        producer.produce(topic, b"x")
        assert producer.flush(TIMEOUT_S) == 0
        return

    def refused() -> bool:
        producer.poll(0.1)
        return any(error.code() == KafkaError._AUTHENTICATION for error in errors)

    until(refused, "an error of authentication", TIMEOUT_S)
    assert "invalid_token" in " ".join(map(str, errors))


def test_kafka_python(broker: Ours, topic: str) -> None:
    """If this fails, clients on kafka-python cannot log in, or can without a valid token."""

    class Tokens(PythonTokens):  # type: ignore[misc]
        def __init__(self, text: str) -> None:
            self.text = text

        def token(self) -> str:
            return self.text

    def producer(text: str, bootstrap_ms: int) -> Any:
        return KafkaProducer(
            bootstrap_servers=broker.bootstrap,
            security_protocol="SASL_PLAINTEXT",
            sasl_mechanism="OAUTHBEARER",
            sasl_oauth_token_provider=Tokens(text),
            request_timeout_ms=int(TIMEOUT_S * 1000),
            max_block_ms=int(TIMEOUT_S * 1000),
            bootstrap_timeout_ms=bootstrap_ms,
        )

    good = producer(GOOD, int(TIMEOUT_S * 1000))
    good.send(topic, b"x").get(TIMEOUT_S)
    good.close()
    with pytest.raises(PythonKafkaError):
        # It retries until its timeout.
        producer(BAD, 2_000)


def test_aiokafka(broker: Ours, topic: str) -> None:
    """If this fails, clients on aiokafka cannot log in, or can without a valid token."""

    class Tokens(AioTokens):  # type: ignore[misc]
        def __init__(self, text: str) -> None:
            self.text = text

        async def token(self) -> str:
            return self.text

    def producer(text: str) -> Any:
        return aiokafka.AIOKafkaProducer(
            bootstrap_servers=broker.bootstrap,
            security_protocol="SASL_PLAINTEXT",
            sasl_mechanism="OAUTHBEARER",
            sasl_oauth_token_provider=Tokens(text),
        )

    async def work() -> None:
        good = producer(GOOD)
        await good.start()
        await good.send_and_wait(topic, b"x")
        await good.stop()
        bad = producer(BAD)
        with pytest.raises(AioKafkaError):
            await bad.start()
        await bad.stop()

    asyncio.run(asyncio.wait_for(work(), 2 * TIMEOUT_S))


@needs.kafka
def test_java(broker: Ours, topic: str, tmp_path: Path) -> None:
    """If this fails, Java clients cannot log in, or can without a valid token."""
    for text, is_good in ((GOOD, True), (BAD, False)):
        file, properties = tmp_path / "token", tmp_path / "client.properties"
        file.write_text(text)
        write_properties(
            properties,
            {
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "OAUTHBEARER",
                "sasl.jaas.config": f"{MODULE} required ;",
                "sasl.login.callback.handler.class": LOGIN_HANDLER,
                "sasl.oauthbearer.token.endpoint.url": file.as_uri(),
                "default.api.timeout.ms": "20000",
                "request.timeout.ms": "15000",
            },
        )
        command = kafka_dist.tool_command("org.apache.kafka.tools.TopicCommand")
        command.insert(1, f"-D{ALLOWED}={file.as_uri()}")
        done = run(
            [*command, "--bootstrap-server", broker.bootstrap, "--command-config", properties, "--list"],
            timeout_s=90,
            check=False,
        )
        output = (done.stdout + done.stderr).decode()
        assert (done.returncode == 0) is is_good, output
        assert ("invalid_token" in output) is not is_good, output


def test_our_command(broker: Ours, tmp_path: Path) -> None:
    """If this fails, operators cannot use broker-cy with a token, or can with an invalid one."""
    for text, code in ((GOOD, 0), (BAD, 1)):
        file, properties = tmp_path / "token", tmp_path / "client.properties"
        file.write_text(text)
        write_properties(
            properties,
            {
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "OAUTHBEARER",
                "sasl.login.callback.handler.class": LOGIN_HANDLER,
                "sasl.oauthbearer.token.endpoint.url": file.as_uri(),
            },
        )
        command = [*broker_command(), "topics", "list", "--bootstrap", broker.bootstrap]
        done = run([*command, "--command-config", properties], timeout_s=60, check=False)
        assert done.returncode == code, done.stderr
        assert (b"invalid_token" in done.stderr) is (code != 0), done.stderr


def test_a_session_ends_with_its_token(broker: Ours) -> None:
    """If this fails, a session continues after its token has expired."""
    client, answer = log_in(broker, token(RSA, claims(exp=time.time() + 1.5)))
    assert (answer.error_code, 0 < answer.session_lifetime_ms <= 2_000) == (0, True)
    request = m.MetadataRequest(topics=[])
    assert client.ask(request, 12) != CLOSED
    until(lambda: client.ask(request, 12) == CLOSED, "the end of the session")


def test_new_keys_count_without_a_restart(provider: Provider, broker: Ours) -> None:
    """If this fails, no client can log in for an hour after the provider has changed its keys, or each wrong token
    makes the broker query the provider.
    """
    new = rsa_key("new")
    before = provider.requests
    provider.keys = key_set(RSA, EC, new)
    until(lambda: log_in(broker, token(new))[1].error_code == 0, "the new key", TIMEOUT_S)
    for _ in range(20):
        log_in(broker, token(OTHER, kid="nobody has it"))
    assert provider.requests <= before + 3
    assert log_in(broker, GOOD)[1].error_code == 0


def test_no_token_is_shown(broker: Ours) -> None:
    """If this fails, a reader of the log can log in."""
    log_in(broker, BAD)
    until(lambda: "login failed" in broker.stderr() + broker.stdout(), "a line of the log")
    output = broker.stdout() + broker.stderr()
    for text in (GOOD, BAD):
        assert text not in output
        assert text.split(".")[1] not in output
