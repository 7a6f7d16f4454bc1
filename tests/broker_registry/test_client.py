"""The client of the REST API against a running registry, and its settings."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, TypeVar

import pytest

from bench.launch.nodes import free_ports
from broker_cy.client.errors import ClientError, Failure
from broker_registry.client import PAGE, Refused, RegistryClient, Schema
from broker_registry.client_settings import parse_url, settings_of
from tests.broker_registry.operations.support import record_of
from tests.support.registry import RegistryProcess

T = TypeVar("T")


def ask(urls: str, call: Callable[[RegistryClient], Coroutine[Any, Any, T]]) -> T:
    async def run() -> T:
        return await call(RegistryClient(settings_of(urls)))

    return asyncio.run(run())


def test_urls_are_tried_in_turn(registry: RegistryProcess, subject: str) -> None:
    """If this fails, a client of three registries stops with the first one."""
    (port,) = free_ports(1)
    urls = f"http://127.0.0.1:{port},{registry.url}/"
    assert ask(urls, lambda client: client.register(subject, Schema("AVRO", record_of("x:int")))) > 0
    with pytest.raises(ClientError, match=f"127.0.0.1:{port}: connection refused: no process") as caught:
        ask(f"http://127.0.0.1:{port}", lambda client: client.subjects())
    assert caught.value.failure is Failure.UNREACHABLE


def test_errors_have_the_registrys_code(registry: RegistryProcess, subject: str) -> None:
    """If this fails, users do not see why a registry refuses a request."""
    with pytest.raises(Refused, match=f"Subject '{subject}' not found .error code 40401.") as caught:
        ask(registry.url, lambda client: client.versions(subject))
    assert (caught.value.status, caught.value.error_code, caught.value.is_not_found) == (404, 40401, True)
    with pytest.raises(Refused, match="error code 42201"):
        ask(registry.url, lambda client: client.register(subject, Schema("AVRO", "?")))


def test_a_name_may_have_any_sign(registry: RegistryProcess, subject: str) -> None:
    """If this fails, subjects with slashes and blanks cannot be reached."""
    name = f"{subject}/a b%2F?#ä"

    async def call(client: RegistryClient) -> list[int]:
        await client.register(name, Schema("AVRO", record_of("x:int")))
        assert name in await client.subjects(subject)
        return await client.versions(name)

    assert ask(registry.url, call) == [1]


def test_listings_have_all_pages(registry: RegistryProcess, subject: str) -> None:
    """If this fails, a copy of a registry leaves schemas out."""
    count = PAGE + 3
    for number in range(count):
        assert registry.register(f"{subject}-{number:03}", record_of("x:int")).status == 200

    async def call(client: RegistryClient) -> list[str]:
        return [each.subject async for each in client.listed(subject)]

    assert ask(registry.url, call) == [f"{subject}-{number:03}" for number in range(count)]


def test_schemas_by_id_are_kept(registry: RegistryProcess, subject: str) -> None:
    """If this fails, each record that is decoded asks the registry again."""
    schema_id = registry.register(subject, record_of("x:int")).body["id"]

    async def call(client: RegistryClient) -> None:
        first = await client.schema_of(schema_id)
        assert first.text == record_of("x:int")
        assert await client.schema_of(schema_id) is first

    ask(registry.url, call)


def test_a_file_has_urls_and_the_login(tmp_path: Path) -> None:
    """If this fails, a client of a registry with a login is refused, or shows the password."""
    file = tmp_path / "registry.properties"
    file.write_text("schema.registry.url=http://a:1/x/,http://b\nbasic.auth.user.info=alice:secret\nother.setting=1\n")
    settings = settings_of(None, file, 3.0)
    assert [(str(each.address), each.path) for each in settings.urls] == [("a:1", "/x"), ("b:80", "")]
    assert settings.authorization == "Basic " + base64.b64encode(b"alice:secret").decode()
    assert settings.timeout_s == 3.0
    assert "secret" not in repr(settings)
    # The option takes precedence over the file, whose login stays.
    other = settings_of("http://c:2", file)
    assert [each.text for each in other.urls] == ["http://c:2"]
    assert other.authorization == settings.authorization
    file.write_text("schema.registry.url=https://a\nschema.registry.bearer.auth.token=abc\n")
    settings = settings_of(None, file)
    assert settings.authorization == "Bearer abc"
    assert settings.context is not None


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("basic.auth.user.info=alice", "USER:PASSWORD"),
        ("basic.auth.user.info=a:b\nbearer.auth.token=c", "two logins"),
        ("basic.auth.credentials.source=SASL_INHERIT", "SASL_INHERIT is not supported"),
        ("bearer.auth.issuer.endpoint.url=https://a", "bearer.auth.issuer.endpoint.url is not supported"),
        ("schema.registry.ssl.truststore.location=a.jks", "need a URL with https"),
        ("schema.registry.url=ftp://a", "no URL of a registry"),
    ],
)
def test_what_would_not_protect_is_refused(tmp_path: Path, text: str, reason: str) -> None:
    """If this fails, a login is ignored, and the user believes that it is used."""
    file = tmp_path / "registry.properties"
    file.write_text(text)
    with pytest.raises(ClientError, match=reason) as caught:
        settings_of(None, file)
    assert caught.value.failure is Failure.INVALID


@pytest.mark.parametrize("text", ["http://alice:secret@a:1", "a:1", "http://", "http://a:99999", "http://a?x=1"])
def test_other_urls_are_refused(text: str) -> None:
    """If this fails, a password is taken from the list of processes, or a wrong URL is asked."""
    with pytest.raises(ValueError, match=r".") as caught:
        parse_url(text)
    assert "secret" not in str(caught.value)
