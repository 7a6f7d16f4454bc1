"""Login through an identity provider, against a provider on loopback that can cheat."""

from __future__ import annotations

import base64
import hmac
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from joserfc import jwt
from joserfc.jwk import RSAKey

from broker_cy.client.errors import ClientError
from dashboard.security import Role, Scope, parse_oidc
from dashboard.security.oidc import ALGORITHMS
from tests.dashboard.security.kit import HTML, Answer, Dashboard, Header
from tests.dashboard.security.provider import CLIENT_ID, SECRET, Provider, base64url, config, refuse, table

Make = Callable[..., Dashboard]
FOREIGN = [("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "navigate"), ("sec-fetch-dest", "document"), HTML]


@pytest.fixture(scope="module")
def running() -> Iterator[Provider]:
    with Provider() as provider:
        yield provider


@pytest.fixture
def provider(running: Provider) -> Provider:
    running.claims, running.metadata, running.sign = {}, {}, running.signed
    return running


@pytest.fixture
def dashboard(make: Make, tmp_path: Path, provider: Provider) -> Dashboard:
    found = make(oidc=config(tmp_path, provider))
    provider.now_s = found.clock
    return found


def cookie_of(answer: Answer, name: str) -> Header:
    for key, value in answer.headers:
        if key == "set-cookie" and value.startswith(f"{name}="):
            return "cookie", value.partition(";")[0]
    raise AssertionError(f"no cookie {name}: {answer.headers}")


def begin(dashboard: Dashboard, target: str = "/topics") -> tuple[str, Header]:
    """Return the provider's URL and the cookie of the login."""
    answer = dashboard.send("GET", f"/oidc/login?next={target}")
    assert answer.status == 303, answer.text
    assert "SameSite=Lax" in answer.header("set-cookie")
    assert "HttpOnly" in answer.header("set-cookie")
    return answer.header("location"), cookie_of(answer, "broker_dash_8050_oidc")


def attempt(dashboard: Dashboard, provider: Provider) -> Answer:
    url, cookie = begin(dashboard)
    return dashboard.send("GET", provider.authorize(url), [cookie, *FOREIGN])


def assert_refused(dashboard: Dashboard, answer: Answer, reason: str) -> None:
    assert answer.status == 403
    assert "The login through the identity provider failed" in answer.text
    assert not any("broker_dash_8050=" in value for name, value in answer.headers if name == "set-cookie")
    assert re.search(reason, dashboard.results()[0]), dashboard.results()[0]


def test_a_login_through_the_provider(dashboard: Dashboard, provider: Provider) -> None:
    """If this fails, users cannot log in through the provider, or get another role than configured."""
    answer = attempt(dashboard, provider)
    assert answer.status == 200
    assert 'content="0;url=/topics"' in answer.text
    cookie = cookie_of(answer, "broker_dash_8050")
    assert dashboard.send("GET", "/", [cookie]).text == '{"name":"olga","role":"operator","address":"127.0.0.1"}'
    identity = dashboard.security.identify([cookie[1].partition("=")[2]], "")
    assert identity is not None
    assert identity.scope == Scope(topics=("orders*",))
    assert dashboard.security.current(identity) == ""
    assert dashboard.security.audit.recent()[0].user == "olga"
    dashboard.restart()
    assert dashboard.send("GET", "/", [cookie]).status == 200


def test_the_highest_role_counts(dashboard: Dashboard, provider: Provider) -> None:
    """If this fails, admins who are also in a team cannot administrate."""
    provider.claims = {"groups": ["kafka-team", "kafka-admins"]}
    cookie = cookie_of(attempt(dashboard, provider), "broker_dash_8050")
    assert '"role":"admin"' in dashboard.send("GET", "/", [cookie]).text


def test_a_changed_configuration_ends_sessions(dashboard: Dashboard, provider: Provider) -> None:
    """If this fails, a role that was removed from the configuration stays valid for 12 h."""
    cookie = cookie_of(attempt(dashboard, provider), "broker_dash_8050")
    oidc = dashboard.config.oidc
    assert oidc is not None
    dashboard.config = replace(dashboard.config, oidc=replace(oidc, roles={"kafka-team": Role.VIEWER}))
    dashboard.restart()
    assert dashboard.send("GET", "/", [cookie]).status == 401


@pytest.mark.parametrize(
    ("claims", "reason"),
    [
        ({"nonce": "another"}, "another nonce"),
        ({"nonce": None}, "another nonce"),
        ({"nonce": ["x"]}, "another nonce"),
        ({"aud": "another-client"}, "aud"),
        ({"aud": None}, "aud"),
        ({"aud": ["another", CLIENT_ID]}, "another client"),
        ({"aud": [CLIENT_ID, "another"], "azp": "another"}, "another client"),
        ({"azp": "another"}, "another client"),
        ({"iss": "http://evil.example"}, "iss"),
        ({"iss": None}, "iss"),
        ({"exp": 1_700_000_000 - 61}, "expired"),
        ({"exp": None}, "exp"),
        ({"exp": "9999999999"}, "exp"),
        ({"iat": 1_700_000_000 + 3_600}, "issued in the future"),
        ({"nbf": 1_700_000_000 + 3_600}, "not yet valid"),
        ({"sub": None}, "sub"),
        ({"groups": []}, "has no role"),
        ({"groups": None}, "has no role"),
        ({"groups": "kafka"}, "has no role"),
        ({"groups": {"kafka-admins": 1}}, "has no role"),
        ({"groups": [["kafka-admins"]]}, "has no role"),
        ({"preferred_username": None}, "preferred_username"),
        ({"preferred_username": "a b\n"}, "is not a user name"),
        ({"preferred_username": 7}, "preferred_username"),
    ],
)
def test_wrong_claims_are_refused(dashboard: Dashboard, provider: Provider, claims: Any, reason: str) -> None:
    """If this fails, a token for another user or application logs a user in."""
    provider.claims = claims
    assert_refused(dashboard, attempt(dashboard, provider), reason)


def unsigned(claims: dict[str, Any]) -> str:
    head = base64url(json.dumps({"alg": "none", "kid": "1"}).encode())
    return f"{head}.{base64url(json.dumps(claims).encode())}."


def symmetric(claims: dict[str, Any], secret: bytes) -> str:
    head = base64url(json.dumps({"alg": "HS256", "kid": "1"}).encode())
    body = f"{head}.{base64url(json.dumps(claims).encode())}"
    return f"{body}.{base64url(hmac.digest(secret, body.encode(), 'sha256'))}"


def test_unsigned_and_foreign_signatures_are_refused(dashboard: Dashboard, provider: Provider) -> None:
    """If this fails, an attacker who can send a token to the dashboard can log in as any user."""
    other = RSAKey.generate_key(2048, {"kid": "1"})
    assert "none" not in ALGORITHMS
    assert not [each for each in ALGORITHMS if each.startswith("HS")]

    def changed(claims: dict[str, Any]) -> str:
        head, _, signature = provider.signed(claims).split(".")
        return f"{head}.{base64url(json.dumps({**claims, 'groups': ['kafka-admins']}).encode())}.{signature}"

    signers: list[Callable[[dict[str, Any]], str]] = [
        unsigned,
        changed,
        lambda claims: jwt.encode({"alg": "RS256", "kid": "1"}, claims, other),
        # The public key as the secret of a symmetric signature.
        lambda claims: symmetric(claims, provider.key.as_pem(private=False)),
        lambda claims: provider.signed(claims).rpartition(".")[0] + ".",
        lambda claims: "x",
        lambda claims: "x" * 100_000,
    ]
    for sign in signers:
        provider.sign = sign
        assert_refused(dashboard, attempt(dashboard, provider), "refused: ")


def test_new_keys_of_the_provider_are_found(dashboard: Dashboard, provider: Provider) -> None:
    """If this fails, users cannot log in after the provider changed its keys, or each forged token requests them."""
    assert attempt(dashboard, provider).status == 200
    provider.key = RSAKey.generate_key(2048, {"kid": "2", "use": "sig", "alg": "RS256"})
    dashboard.clock.now_s += 61
    assert attempt(dashboard, provider).status == 200
    before = provider.key_requests
    provider.sign = unsigned
    for _ in range(3):
        assert attempt(dashboard, provider).status == 403
    assert provider.key_requests == before


def test_an_answer_counts_once_and_for_one_browser(dashboard: Dashboard, provider: Provider) -> None:
    """If this fails, an answer can be replayed, or an attacker logs others in as the attacker."""
    url, cookie = begin(dashboard)
    answer = provider.authorize(url)
    _, other = begin(dashboard)
    assert_refused(dashboard, dashboard.send("GET", answer, FOREIGN), "no login under way")
    assert_refused(dashboard, dashboard.send("GET", answer, [other, *FOREIGN]), "state is not the one")
    name, value = cookie
    assert_refused(dashboard, dashboard.send("GET", answer, [(name, value + "x"), *FOREIGN]), "no login under way")
    assert_refused(dashboard, dashboard.send("GET", f"{answer}&state=x", [cookie, *FOREIGN]), "state is not the one")
    assert_refused(dashboard, dashboard.send("GET", f"{answer}&iss=http://evil", [cookie, *FOREIGN]), "another issuer")
    assert_refused(dashboard, dashboard.send("GET", answer, [cookie, *FOREIGN]), "state was used before")


def test_a_late_answer_is_refused(dashboard: Dashboard, provider: Provider) -> None:
    """If this fails, a login that was left open can be finished by the next user of the browser."""
    url, cookie = begin(dashboard)
    answer = provider.authorize(url)
    dashboard.clock.now_s += 600
    assert_refused(dashboard, dashboard.send("GET", answer, [cookie, *FOREIGN]), "took more than 600 s")


def test_errors_of_the_provider_are_not_shown_as_html(dashboard: Dashboard, provider: Provider) -> None:
    """If this fails, a link to the callback shows foreign content on the dashboard's page."""
    _, cookie = begin(dashboard)
    state = json.loads(_padded(cookie[1].partition("=")[2].partition(".")[0]))[0]
    target = f"/oidc/callback?state={state}&error=%3Cscript%3E&error_description=call+555"
    answer = dashboard.send("GET", target, [cookie, *FOREIGN])
    assert_refused(dashboard, answer, "<script>")
    assert "script" not in answer.text
    assert "555" not in answer.text


def _padded(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


@pytest.mark.parametrize(
    ("metadata", "reason"),
    [
        ({"issuer": "http://evil.example"}, "issuer"),
        ({"authorization_endpoint": "javascript:alert(1)"}, "authorization_endpoint"),
        ({"authorization_endpoint": "http://evil.example/"}, "https"),
        ({"token_endpoint": 7}, "token_endpoint of the metadata: is missing"),
        ({"padding": "x" * (2 << 20)}, "more than 1,048,576 bytes"),
    ],
)
def test_wrong_metadata_are_refused(dashboard: Dashboard, provider: Provider, metadata: Any, reason: str) -> None:
    """If this fails, the client's secret or the users are sent to another host."""
    provider.metadata = metadata
    assert_refused(dashboard, dashboard.send("GET", "/oidc/login"), reason)


def test_a_provider_that_is_away_is_reported(make: Make, tmp_path: Path, provider: Provider) -> None:
    """If this fails, the dashboard fails with its provider, or users wait forever."""
    dashboard = make(oidc=config(tmp_path, provider, issuer="http://127.0.0.1:1"))
    assert_refused(dashboard, dashboard.send("GET", "/oidc/login"), "ConnectError")
    assert "Log in with 127.0.0.1:1" in dashboard.send("GET", "/login").text
    assert dashboard.log_in("anna").status == 404


def test_attempts_are_limited(dashboard: Dashboard) -> None:
    """If this fails, any client can make the dashboard flood the provider."""
    statuses = [dashboard.send("GET", "/oidc/login").status for _ in range(21)]
    assert statuses == [303] * 20 + [429]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"issuer": None}, "oidc.issuer: is missing"),
        ({"issuer": "http://id.example.com"}, "use https"),
        ({"issuer": "https://user@id.example.com"}, "expected https://HOST/PATH"),
        ({"redirect_url": "https://dash.example.com/"}, "its path must be /oidc/callback"),
        ({"client_secret_file": "missing"}, "cannot be read"),
        ({"client_secret": "x"}, "oidc.client_secret: unknown key; did you mean 'client_secret_file'?"),
        ({"scopes": ["profile"]}, 'oidc.scopes: "openid" is missing'),
        ({"roles": {}}, "oidc.roles: is missing"),
        ({"roles": {"a": "root"}}, "oidc.roles.a: 'root' is not a role"),
        ({"roles": {"a": 3}}, "oidc.roles.a: '3' is not a role"),
        ({"patterns": {"root": {}}}, "oidc.patterns.root: unknown key (allowed: admin, operator, viewer)"),
        ({"patterns": {"viewer": {"topics": "a"}}}, "oidc.patterns.viewer.topics: 'a' is not a list of texts"),
    ],
)
def test_a_wrong_configuration_is_refused(tmp_path: Path, changes: Any, expected: str) -> None:
    """If this fails, a mistake in the configuration gives users a wrong role."""
    with pytest.raises(ClientError) as caught:
        parse_oidc(*table(tmp_path, "https://id.example.com", **changes), refuse)
    assert expected in str(caught.value)


def test_a_secret_that_others_can_read_is_refused(tmp_path: Path) -> None:
    """If this fails, other users of the machine can act as the dashboard at the provider."""
    data, path = table(tmp_path, "https://id.example.com")
    (tmp_path / "client.secret").chmod(0o644)
    with pytest.raises(ClientError, match="chmod 600"):
        parse_oidc(data, path, refuse)
    (tmp_path / "client.secret").chmod(0o600)
    found = parse_oidc(data, path, refuse)
    assert found.client_secret == SECRET
    assert SECRET not in repr(found)
