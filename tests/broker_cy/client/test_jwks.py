"""The keys of an OAuth provider: their source, the time of the next read, and the reaction to a failure."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from broker_cy.client import jwks
from broker_cy.client.jwks import Jwks, read_url
from broker_cy.config import BrokerConfig
from broker_cy.core.config_def.types import ConfigError
from broker_cy.security.jwt import SET_BYTES_MAX
from broker_cy.security.token_settings import JwksEndpoint
from tests.support.oauth_provider import Provider, key_set, rsa_key

ONE, TWO = key_set(rsa_key("one")), key_set(rsa_key("two"))
MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
PREFIX = "listener.name.sasl_plaintext.oauthbearer."
URL = "https://idp.example.com/keys"
SETTINGS = {
    "listeners": "SASL_PLAINTEXT://127.0.0.1:0,OPEN://127.0.0.1:0",
    "listener.security.protocol.map": "SASL_PLAINTEXT:SASL_PLAINTEXT,OPEN:PLAINTEXT",
    "inter.broker.listener.name": "OPEN",
    "sasl.enabled.mechanisms": "OAUTHBEARER",
    f"{PREFIX}sasl.jaas.config": f"{MODULE} required ;",
    "sasl.oauthbearer.jwks.endpoint.url": URL,
    "brokercy.sasl.oauthbearer.allowed.urls": f"x, {URL}",
}


def config(**changes: str | None) -> BrokerConfig:
    found = {**SETTINGS, **{name.replace("__", "."): value for name, value in changes.items()}}
    return BrokerConfig.from_properties({name: value for name, value in found.items() if value is not None})


def test_settings() -> None:
    """If this fails, requirements that an operator sets for tokens are not checked."""
    oauth = (
        config(
            **{
                "sasl.oauthbearer.expected.audience": "a, b",
                f"{PREFIX}sasl.oauthbearer.expected.issuer": " me ",
                "listener.name.sasl_plaintext.sasl.oauthbearer.sub.claim.name": "client_id",
                "sasl.oauthbearer.clock.skew.seconds": "5",
                "sasl.oauthbearer.jwks.endpoint.refresh.ms": "2000",
                f"{PREFIX}sasl.server.callback.handler.class": (
                    "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler"
                ),
            }
        )
        .sasl.listeners["SASL_PLAINTEXT"]
        .oauth
    )
    assert oauth is not None
    assert oauth.endpoint == JwksEndpoint(URL, 2.0, 0.1, 10.0)
    assert (sorted(oauth.audiences), oauth.issuer) == (["a", "b"], "me")
    assert (oauth.scope_claim, oauth.subject_claim, oauth.skew_s) == ("scope", "client_id", 5)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        # CVE-2026-33557: without keys Kafka took tokens without a signature.
        ({"sasl.oauthbearer.jwks.endpoint.url": None}, "signatures"),
        ({"sasl.oauthbearer.jwks.endpoint.url": " "}, "signatures"),
        # CVE-2025-27817: a URL that reads any file, or asks any server.
        ({"brokercy.sasl.oauthbearer.allowed.urls": None}, "not allowed"),
        ({"brokercy.sasl.oauthbearer.allowed.urls": f"{URL}2,{URL}/"}, "not allowed"),
        ({"sasl.oauthbearer.jwks.endpoint.url": "file:///etc/passwd"}, "not allowed"),
        ({"sasl.oauthbearer.jwks.endpoint.url": "ftp://idp.example.com/"}, "use https"),
        ({"sasl.oauthbearer.jwks.endpoint.url": "https:///keys"}, "use https"),
        ({"sasl.oauthbearer.jwks.endpoint.url": "https://[x/"}, "no URL"),
        (
            {
                "sasl.oauthbearer.jwks.endpoint.url": "http://idp.example.com/",
                "brokercy.sasl.oauthbearer.allowed.urls": "http://idp.example.com/",
            },
            "use https",
        ),
        ({f"{PREFIX}sasl.jaas.config": f'{MODULE} required unsecuredLoginStringClaim_sub="a";'}, "options"),
        ({f"{PREFIX}sasl.jaas.config": None}, "is needed"),
        ({f"{PREFIX}sasl.server.callback.handler.class": "org.example.Mine"}, "cannot run here"),
        (
            {
                "sasl.server.callback.handler.class": (
                    "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler"
                )
            },
            "cannot run here",
        ),
        ({"sasl.oauthbearer.jwt.validator.class": "org.example.Mine"}, "cannot run here"),
        ({"sasl.oauthbearer.jwks.endpoint.refresh.ms": "0"}, "at least 1"),
        ({"sasl.oauthbearer.sub.claim.name": " "}, "empty"),
        (
            {"inter.broker.listener.name": "SASL_PLAINTEXT", "sasl.mechanism.inter.broker.protocol": "OAUTHBEARER"},
            "token.endpoint.url is needed",
        ),
    ],
)
def test_settings_that_are_refused(changes: dict[str, str | None], reason: str) -> None:
    """If this fails, a broker starts that looks as if it checked tokens."""
    with pytest.raises(ConfigError, match=reason):
        config(**changes)


def test_what_is_read(tmp_path: Path) -> None:
    """If this fails, keys come from where the settings do not say, or a provider fills the memory."""
    file = tmp_path / "a file"
    file.write_bytes(ONE)
    assert read_url(file.as_uri()) == ONE
    file.write_bytes(b"x" * (SET_BYTES_MAX + 100))
    assert len(read_url(file.as_uri())) == SET_BYTES_MAX + 1
    with Provider(ONE) as provider:
        assert read_url(provider.url) == ONE
        with pytest.raises(OSError, match="302"):
            read_url(provider.url.replace("/keys", "/elsewhere"))
        assert provider.requests == 2
    with pytest.raises(OSError):  # noqa: PT011
        read_url(provider.url)


def run(work: Callable[[asyncio.AbstractEventLoop], Awaitable[None]]) -> None:
    async def inside() -> None:
        await work(asyncio.get_running_loop())

    asyncio.run(asyncio.wait_for(inside(), 20))


async def until(condition: Callable[[], bool]) -> None:
    while not condition():
        await asyncio.sleep(0.005)


def endpoint(refresh_s: float) -> JwksEndpoint:
    return JwksEndpoint(URL, refresh_s, 0.01, 0.02)


def test_keys_are_read_again() -> None:
    """If this fails, keys that the provider has withdrawn stay valid forever, or its first failure invalidates all."""
    answers: list[bytes | Exception] = [ONE, OSError("away"), b"no keys", TWO]

    def read(url: str) -> bytes:
        found = answers.pop(0) if len(answers) > 1 else answers[0]
        if isinstance(found, Exception):
            raise found
        return found

    async def work(loop: asyncio.AbstractEventLoop) -> None:
        keys = Jwks(endpoint(0.01), loop, read)
        assert keys.keys.has("one")
        await until(lambda: len(answers) == 2)
        # Known keys stay valid while the provider is unreachable.
        assert keys.keys.has("one")
        await until(lambda: keys.keys.has("two"))
        assert not keys.keys.has("one")

    run(work)


def test_missing_keys_are_asked_for_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, new keys are valid only after the interval, or any client can make the broker ask repeatedly."""
    reads: list[str] = []

    def read(url: str) -> bytes:
        reads.append(url)
        return ONE if len(reads) == 1 else TWO

    async def work(loop: asyncio.AbstractEventLoop) -> None:
        keys = Jwks(endpoint(3_600), loop, read)
        keys.missing("two")
        keys.missing("two")
        await until(lambda: keys.keys.has("two"))
        for number in range(100):
            keys.missing(str(number))
        assert len(reads) == 2
        monkeypatch.setattr(jwks, "MISSING_S", 0.0)
        keys.missing("three")
        await until(lambda: len(reads) == 3)

    run(work)


@pytest.mark.parametrize("found", [OSError("away"), b"", b'{"keys": []}'], ids=str)
def test_without_keys_nothing_starts(found: bytes | Exception) -> None:
    """If this fails, a listener serves that can check no token."""

    def read(url: str) -> bytes:
        if isinstance(found, Exception):
            raise found
        return found

    async def work(loop: asyncio.AbstractEventLoop) -> None:
        with pytest.raises(ConfigError, match="could not read keys"):
            Jwks(endpoint(1), loop, read)

    run(work)
