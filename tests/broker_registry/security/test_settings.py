"""The settings of security in `schema-registry.properties`."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker_cy.client.errors import ClientError
from broker_cy.http.listeners import Listener
from broker_registry.config import RegistryConfig, cautions, load_config
from broker_registry.security.settings import TOPIC_ACLS, Method

PLUGIN = "io.confluent.kafka.schemaregistry.security."
EXTENSION = f"resource.extension.class={PLUGIN}SchemaRegistrySecurityResourceExtension"
BASIC = ("authentication.method=BASIC", "brokercy.registry.users.file=/etc/users")
KEY = ("ssl.keystore.location=/etc/key.jks", "ssl.keystore.password=secret")
TRUST = ("ssl.truststore.location=/etc/trust.jks", "ssl.truststore.password=secret")
ACLS = f"confluent.schema.registry.authorizer.class={TOPIC_ACLS}"
JWKS = "oauthbearer.jwks.endpoint.url=https://idp.example.com/keys"


def load(directory: Path, *lines: str) -> RegistryConfig:
    path = directory / "schema-registry.properties"
    path.write_text("\n".join(lines))
    return load_config(path)


def test_basic_as_confluents_file_has_it(tmp_path: Path) -> None:
    """If this fails, an operator who moves has to find out new names, or the registry is open."""
    config = load(
        tmp_path,
        *BASIC,
        "authentication.realm=SchemaRegistry-Props",
        "authentication.roles=admin,developer",
        "authentication.skip.paths=/_health,/v1/*",
        EXTENSION,
        ACLS,
        "confluent.schema.registry.auth.mechanism=JETTY_AUTH",
        "confluent.topic.acl.super.users=admin;User:root; ",
    )
    security = config.security
    assert (security.method, security.realm, security.users_file) == (
        Method.BASIC,
        "SchemaRegistry-Props",
        "/etc/users",
    )
    assert security.roles == {"admin", "developer"}
    assert security.skip_paths == ("/_health", "/v1/*")
    assert security.uses_acls
    assert security.super_users == {"User:admin", "User:root"}
    assert not security.has_anonymous
    assert config.warnings == ()


def test_every_role_is_any(tmp_path: Path) -> None:
    """If this fails, users are refused for a role named `*`."""
    for line in ("authentication.roles=*", "authentication.roles=**", ""):
        assert load(tmp_path, *BASIC, line).security.roles == frozenset()


def test_tokens_as_confluents_file_has_them(tmp_path: Path) -> None:
    """If this fails, tokens of other audiences or issuers are accepted, or none are."""
    handler = "rest.servlet.initializor.classes=io.confluent.common.security.jetty.initializer.AuthenticationHandler"
    for login in ("authentication.method=BEARER", handler):
        tokens = load(
            tmp_path,
            login,
            JWKS,
            "oauthbearer.expected.audience=kafka,registry",
            "oauthbearer.expected.issuer=https://idp.example.com",
            "oauthbearer.sub.claim.name=client_id",
        ).security.tokens
        assert tokens is not None
        assert tokens.endpoint.url == "https://idp.example.com/keys"
        assert tokens.audiences == {"kafka", "registry"}
        assert tokens.issuer == "https://idp.example.com"
        assert (tokens.subject_claim, tokens.skew_s) == ("client_id", 30)


def test_certificates_name_clients_without_a_login(tmp_path: Path) -> None:
    """If this fails, clients with certificates have no principal, or one that their login does not have."""
    required = "ssl.client.authentication=REQUIRED"
    found = load(tmp_path, *KEY, *TRUST, required, ACLS)
    assert found.security.certificate_rules == "DEFAULT"
    assert found.tls is not None
    assert (found.tls.asks, found.tls.requires) == (True, True)
    rules = "confluent.schema.registry.auth.ssl.principal.mapping.rules=RULE:^CN=(.*?),.*$/$1/L"
    assert load(tmp_path, *KEY, *TRUST, required, rules).security.certificate_rules == "RULE:^CN=(.*?),.*$/$1/L"
    assert load(tmp_path, *KEY, *TRUST, required, *BASIC).security.certificate_rules is None
    mechanism = "confluent.schema.registry.auth.mechanism=SSL"
    assert load(tmp_path, *KEY, *TRUST, required, *BASIC, mechanism).security.certificate_rules == "DEFAULT"
    older = load(tmp_path, *KEY, *TRUST, "ssl.client.auth=true").tls
    assert older is not None
    assert older.requires
    both = load(tmp_path, *KEY, *TRUST, "ssl.client.auth=true", "ssl.client.authentication=REQUESTED").tls
    assert both is not None
    assert both.asks
    assert not both.requires


def test_several_listeners(tmp_path: Path) -> None:
    """If this fails, a registry has one address where its file names several."""
    config = load(
        tmp_path,
        "listeners=http://127.0.0.1:8081,https://[::]:8082,INTERNAL://0.0.0.0:8083",
        "listener.protocol.map=INTERNAL:https",
        *KEY,
        "ssl.enabled.protocols=TLSv1.3",
        "ssl.cipher.suites=",
    )
    assert config.listeners == (
        Listener("127.0.0.1", 8081),
        Listener("::", 8082, is_tls=True),
        Listener("0.0.0.0", 8083, is_tls=True),
    )
    assert config.tls is not None
    assert (config.tls.oldest, config.tls.newest, config.tls.asks) == ("TLSv1.3", "TLSv1.3", False)


@pytest.mark.parametrize(
    ("lines", "part"),
    [
        (["authentication.method=BASIC"], "BASIC needs either brokercy.registry.users.file"),
        ([*BASIC, "brokercy.registry.users.mechanism=PLAIN"], "BASIC needs either brokercy.registry.users.file"),
        (["authentication.method=BASIC", "brokercy.registry.users.mechanism=GSSAPI"], "GSSAPI is not supported"),
        (
            ["authentication.method=BASIC", "brokercy.registry.users.mechanism=PLAIN", "authentication.roles=admin"],
            "the users of the cluster have no roles",
        ),
        (["authentication.method=DIGEST"], "authentication.method"),
        (["authentication.roles=admin"], "only the users of brokercy.registry.users.file have roles"),
        (["brokercy.registry.users.file=/etc/users"], "has no effect without authentication.method=BASIC"),
        (["authentication.method=BEARER"], "oauthbearer.jwks.endpoint.url is needed"),
        (["authentication.method=BEARER", JWKS.replace("https", "http")], "use https"),
        ([JWKS], "has no effect without authentication.method=BEARER"),
        (["rest.servlet.initializor.classes=com.example.Open"], "a class of Java that may decide who logs in"),
        (["resource.extension.class=com.example.Open"], "a class of Java that may decide what clients may do"),
        ([f"schema.registry.{EXTENSION},com.example.Open"], "names com.example.Open"),
        (
            [f"confluent.schema.registry.authorizer.class={PLUGIN}authorizer.rbac.RbacAuthorizer"],
            "has rules of its own",
        ),
        ([ACLS], "needs clients that log in"),
        (["confluent.schema.registry.auth.mechanism=SSL"], "needs listeners with https"),
        (["ssl.client.authentication=REQUIRED"], "needs https"),
        ([*KEY, "ssl.client.authentication=REQUIRED"], "needs ssl.truststore.location"),
        ([*KEY, "ssl.client.auth=maybe"], "ssl.client.auth"),
        (["ssl.keystore.location=/etc/key.jks"], "key store password is not specified"),
        ([*KEY, "ssl.enabled.protocols=SSLv3"], "ssl.enabled.protocols"),
        ([*KEY, "ssl.cipher.suites=TLS_AES_128_GCM_SHA256"], "either all or none"),
        (["ssl.spiffe.trust=all"], "protects the registry in a way that is not known here"),
        (["listener.name.internal.ssl.keystore.location=/x"], "protects the registry in a way that is not known"),
        (["confluent.schema.registry.auth.roles=x"], "protects the registry in a way that is not known here"),
        (["confluent.schema.registry.auth.ssl.principal.mapping.rules=DEFAULT"], "has no effect unless certificates"),
        ([*KEY, *TRUST, "ssl.client.auth=true", "confluent.schema.registry.auth.ssl.principal.mapping.rules=X"], "X"),
    ],
)
def test_settings_that_cannot_hold_are_refused(tmp_path: Path, lines: list[str], part: str) -> None:
    """If this fails, a registry runs open, or with another protection than its file says."""
    with pytest.raises(ClientError, match=r".") as caught:
        load(tmp_path, *lines)
    assert part in str(caught.value)
    assert "secret" not in str(caught.value)


def test_an_operator_learns_what_stays_open(tmp_path: Path) -> None:
    """If this fails, passwords cross the network readable, or users may do everything, and no operator knows."""
    assert cautions(load(tmp_path)) == []
    assert cautions(load(tmp_path, *BASIC, ACLS)) == []
    found = cautions(load(tmp_path, *BASIC, *KEY, "listeners=http://0.0.0.0:1,https://0.0.0.0:2,http://127.0.0.1:3"))
    assert found == [
        "0.0.0.0:1 has no TLS: passwords and tokens can be read on their way",
        "every client that logs in may do everything, because confluent.schema.registry.authorizer.class is not set",
    ]


def test_a_file_of_https_and_parts_of_java(tmp_path: Path) -> None:
    """If this fails, files of working registries are refused for settings that change nothing."""
    config = load(tmp_path, *KEY, "ssl.keystore.reload=true", "ssl.provider=SunJSSE")
    assert [each.rpartition(": ")[2] for each in config.warnings] == [
        "ssl.keystore.reload has no effect",
        "ssl.provider has no effect",
    ]
