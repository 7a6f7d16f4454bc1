"""The security settings of a client, by the names of Kafka's clients: in `--command-config FILE`, in the cluster file
and in `-X NAME=VALUE`.

    security.protocol=SASL_PLAINTEXT
    sasl.mechanism=SCRAM-SHA-512
    sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required username="alice" password="...";

Instead of sasl.jaas.config, `sasl.username` may be set with `sasl.password.file` or `sasl.password.env`. These name a
file (its first line) or an environment variable with the password: so no file that others read contains it.

With `security.protocol` SSL or SASL_SSL, `ssl.truststore.*`, `ssl.keystore.*`, `ssl.key.password`,
`ssl.enabled.protocols`, `ssl.cipher.suites` and `ssl.endpoint.identification.algorithm` are as in Kafka; passwords may
also be in a file or in the environment (`ssl.keystore.password.file`, `ssl.keystore.password.env`).
`ssl.cipher.suites` must name all suites of TLS 1.3, or none: then only TLS 1.2 is used.

With GSSAPI, sasl.jaas.config has the options of Krb5LoginModule for a keytab or the tickets of kinit, and
sasl.kerberos.service.name is the primary of the brokers' principals.

With OAUTHBEARER, sasl.oauthbearer.token.endpoint.url names a file with the token, or the URL of a provider, which needs
sasl.oauthbearer.client.credentials.client.id and .client.secret, or `.client.secret.file` or `.client.secret.env`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from broker_cy.client.errors import ClientError, Failure
from broker_cy.client.login import ClientLogin, KerberosMissing
from broker_cy.client.oauth import TokenSource
from broker_cy.client.secrets import first_line
from broker_cy.core import fetch
from broker_cy.core.classes import NamedTuple
from broker_cy.core.config_def.types import ConfigError
from broker_cy.core.properties import read_properties_file
from broker_cy.security import jaas
from broker_cy.security.jaas import JaasError
from broker_cy.security.sasl.exchange import Login
from broker_cy.security.sasl.oauthbearer import TokenEndpoint
from broker_cy.security.tls.stores import NAMES as STORE_NAMES
from broker_cy.security.tls.stores import ClientSettings, StoreError, StoreSettings, check_settings
from broker_cy.security.tls.suites import DEFAULT_OF_TLS_13, SuitesError, split

if TYPE_CHECKING:
    import ssl

PROTOCOL: Final = "security.protocol"
MECHANISM: Final = "sasl.mechanism"
JAAS: Final = "sasl.jaas.config"
USER: Final = "sasl.username"
PASSWORD_FILE: Final = "sasl.password.file"
PASSWORD_VARIABLE: Final = "sasl.password.env"
TOKEN_URL: Final = "sasl.oauthbearer.token.endpoint.url"
CLIENT_ID: Final = "sasl.oauthbearer.client.credentials.client.id"
CLIENT_SECRET: Final = "sasl.oauthbearer.client.credentials.client.secret"
SECRET_FILE: Final = f"{CLIENT_SECRET}.file"
SECRET_VARIABLE: Final = f"{CLIENT_SECRET}.env"
SCOPE: Final = "sasl.oauthbearer.scope"
SERVICE: Final = "sasl.kerberos.service.name"
LOGIN_HANDLER: Final = "sasl.login.callback.handler.class"
_OF_PASSWORDS: Final = (JAAS, USER, PASSWORD_FILE, PASSWORD_VARIABLE)
_OF_TOKENS: Final = (JAAS, TOKEN_URL, CLIENT_ID, CLIENT_SECRET, SECRET_FILE, SECRET_VARIABLE, SCOPE, LOGIN_HANDLER)
_OF_KERBEROS: Final = (JAAS, SERVICE)
_SASL: Final = (MECHANISM, *dict.fromkeys((*_OF_PASSWORDS, *_OF_TOKENS, *_OF_KERBEROS)))
ENDPOINT: Final = "ssl.endpoint.identification.algorithm"
VERSIONS: Final = "ssl.enabled.protocols"
NEWEST: Final = "ssl.protocol"
SUITES: Final = "ssl.cipher.suites"
_SECRETS: Final = ("ssl.keystore.password", "ssl.key.password", "ssl.truststore.password")
_TLS: Final = (
    *STORE_NAMES.values(),
    *(f"{name}{ending}" for name in _SECRETS for ending in (".file", ".env")),
    ENDPOINT,
    VERSIONS,
    NEWEST,
    SUITES,
)
NAMES: Final = (PROTOCOL, *_SASL, *_TLS)
WITH_SASL: Final = ("SASL_PLAINTEXT", "SASL_SSL")
WITH_TLS: Final = ("SSL", "SASL_SSL")
_KNOWN_VERSIONS: Final = ("TLSv1.2", "TLSv1.3")
# The handlers of Kafka that do what this client does.
_HANDLERS: Final = frozenset(
    {
        "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler",
        "org.apache.kafka.common.security.oauthbearer.secured.OAuthBearerLoginCallbackHandler",
    }
)
# Settings that begin like this and are not among NAMES protect something: they are refused, and not ignored.
PREFIXES: Final = ("security.", "sasl.", "ssl.")
# Settings whose values are secrets, also in part.
SECRETS: Final = frozenset({JAAS, CLIENT_SECRET, *_SECRETS})


def read_command_config(path: Path) -> dict[str, str]:
    """The settings of security in a file with those of a Kafka client; others are not read. Raises ClientError."""
    try:
        settings = read_properties_file(path)
    except ConfigError as error:
        raise ClientError(Failure.INVALID, str(error)) from None
    return {name: text for name, text in settings.items() if name.startswith(PREFIXES)}


def parse_settings(given: Iterable[str]) -> dict[str, str]:
    """The settings of -X, each NAME=VALUE; of two with one name the last one counts. Raises ClientError."""
    found: dict[str, str] = {}
    for each in given:
        name, equals, value = each.partition("=")
        if not equals:
            # Without a value it is perhaps a secret in the wrong place: it is not printed.
            raise _invalid("-X", "NAME=VALUE is expected, such as security.protocol=SSL")
        if name.strip() not in NAMES:
            raise _invalid("-X", f"setting {name.strip()} is not supported; those of security are {', '.join(NAMES)}")
        found[name.strip()] = value.strip()
    return found


def protocol_of(settings: Mapping[str, str], where: str) -> str:
    """The security protocol, if the settings are known and fit it. Raises ClientError about `where`."""
    unknown = sorted(set(settings) - set(NAMES))
    if unknown:
        raise _invalid(where, f"setting {unknown[0]} is not supported yet; those of security are {', '.join(NAMES)}")
    protocol = settings.get(PROTOCOL, "PLAINTEXT").upper()
    if protocol not in ("PLAINTEXT", *WITH_SASL, *WITH_TLS):
        raise _invalid(where, f"{PROTOCOL}={protocol} is not known: use PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL")
    if protocol not in WITH_SASL and not settings.keys().isdisjoint(_SASL):
        raise _invalid(where, f"settings of SASL need {PROTOCOL}=SASL_PLAINTEXT or SASL_SSL")
    if protocol not in WITH_TLS and not settings.keys().isdisjoint(_TLS):
        raise _invalid(where, f"settings of TLS need {PROTOCOL}=SSL or SASL_SSL")
    return protocol


def tls_of(settings: Mapping[str, str], where: str) -> ssl.SSLContext | None:
    """The TLS context of the connections; None without TLS. Raises ClientError about `where`."""
    if protocol_of(settings, where) not in WITH_TLS:
        return None
    from broker_cy.client.tls import context_of, read_file

    try:
        return context_of(_tls_settings(settings, where), read_file)
    except StoreError as error:
        raise _invalid(where, str(error)) from None


def _tls_settings(settings: Mapping[str, str], where: str) -> ClientSettings:
    """Raises ClientError and StoreError."""
    found = {field: settings[name] for field, name in STORE_NAMES.items() if name in settings}
    for field, name in STORE_NAMES.items():
        if f"{name}.file" in settings or f"{name}.env" in settings:
            if name in settings:
                raise _invalid(where, f"{name} is given twice")
            found[field] = _secret(settings, where, name, f"{name}.file", f"{name}.env")
    oldest, newest = _versions(settings, where)
    algorithm = settings.get(ENDPOINT, "https")
    if algorithm and algorithm.lower() != "https":
        raise _invalid(where, f"{ENDPOINT}={algorithm} is not supported: use https, or leave it empty")
    stores = StoreSettings(**found)
    check_settings(stores)
    ciphers = None
    if named := [each.strip() for each in settings.get(SUITES, "").split(",") if each.strip()]:
        try:
            ciphers, suites, oldest, newest = split(named, oldest, newest)
        except SuitesError as error:
            raise _invalid(where, str(error)) from None
        if suites and set(suites) != DEFAULT_OF_TLS_13:
            names = ", ".join(sorted(DEFAULT_OF_TLS_13))
            raise _invalid(where, f"{SUITES}: of TLS 1.3 either all or none can be used: {names}")
    return ClientSettings(stores, oldest, newest, bool(algorithm), ciphers=ciphers)


def _versions(settings: Mapping[str, str], where: str) -> tuple[str, str]:
    """The oldest and the newest version. `ssl.protocol` counts only if no versions are enabled, as in Java."""
    newest = settings.get(NEWEST, "TLS")
    if newest not in ("TLS", *_KNOWN_VERSIONS):
        raise _invalid(where, f"{NEWEST}={newest} is not supported: use TLSv1.3, TLSv1.2 or TLS")
    enabled = settings.get(VERSIONS, ",".join(_KNOWN_VERSIONS))
    if not enabled.strip():
        return _KNOWN_VERSIONS[0], _KNOWN_VERSIONS[0] if newest == "TLSv1.2" else _KNOWN_VERSIONS[1]
    versions = [each.strip() for each in enabled.split(",")]
    if any(version not in _KNOWN_VERSIONS for version in versions):
        raise _invalid(where, f"{VERSIONS}={enabled}: use {', '.join(_KNOWN_VERSIONS)}")
    return min(versions), max(versions)


class ClientSecurity(NamedTuple):
    """The login and the TLS context of connections; None without a login or without TLS."""

    login: ClientLogin | None = None
    tls: ssl.SSLContext | None = None


OPEN: Final = ClientSecurity()


def security_of(settings: Mapping[str, str], where: str) -> ClientSecurity:
    """The login and the TLS context of the settings. Raises ClientError about `where`."""
    return ClientSecurity(login_of(settings, where), tls_of(settings, where))


def librdkafka_settings(settings: Mapping[str, str], where: str) -> dict[str, str]:
    """The equivalent security settings of librdkafka; some of them are secrets. Raises ClientError about `where`, also
    for a login without user and password.
    """
    login, protocol = login_of(settings, where), protocol_of(settings, where)
    found = {"security.protocol": protocol}
    if login is not None:
        user, password = login.user_and_password() or ("", "")
        if login.mechanism not in jaas.BY_PASSWORD or not user:
            raise _invalid(where, f"librdkafka logs in with a user and a password, not with {login}")
        found |= {"sasl.mechanism": login.mechanism, "sasl.username": user, "sasl.password": password}
    if protocol not in WITH_TLS:
        return found
    from broker_cy.client.tls import pem_texts, read_file

    for name in (VERSIONS, SUITES):
        if name in settings:
            raise _invalid(where, f"librdkafka has no setting that does what {name} does in Java")
    try:
        wanted = _tls_settings(settings, where)
        texts = pem_texts(wanted, read_file)
    except StoreError as error:
        raise _invalid(where, str(error)) from None
    names = {"ssl.ca.pem": texts.trusted, "ssl.key.pem": texts.key, "ssl.certificate.pem": texts.chain}
    found |= {name: text for name, text in names.items() if text is not None}
    return found | {"ssl.endpoint.identification.algorithm": "https" if wanted.checks_host else "none"}


def java_settings(settings: Mapping[str, str], where: str) -> dict[str, str]:
    """The same settings by the names that Kafka's own clients know: secrets of files and variables are values, also for
    sasl.username. Raises ClientError about `where`.
    """
    found = dict(settings)
    for name, user, endings in (
        *((name, name, (f"{name}.file", f"{name}.env")) for name in _SECRETS),
        (CLIENT_SECRET, CLIENT_ID, (SECRET_FILE, SECRET_VARIABLE)),
    ):
        if any(ending in found for ending in endings):
            found[name] = _secret(settings, where, user, *endings)
            for ending in endings:
                found.pop(ending, None)
    if USER in found:
        user, mechanism = found.pop(USER), settings.get(MECHANISM, "")
        password = _secret(settings, where, USER, PASSWORD_FILE, PASSWORD_VARIABLE)
        found.pop(PASSWORD_FILE, None)
        found.pop(PASSWORD_VARIABLE, None)
        found[JAAS] = jaas.client_text(mechanism, user, password)
    return found


def login_of(settings: Mapping[str, str], where: str) -> ClientLogin | None:
    """The login in the settings; None without SASL. Raises ClientError about `where`."""
    if protocol_of(settings, where) not in WITH_SASL:
        return None
    mechanism = settings.get(MECHANISM, "GSSAPI")
    if mechanism not in jaas.MECHANISMS:
        names = ", ".join(sorted(jaas.MECHANISMS))
        raise _invalid(where, f"{MECHANISM}={mechanism} is not supported: use {names}")
    own = {jaas.OAUTHBEARER: _OF_TOKENS, jaas.GSSAPI: _OF_KERBEROS}.get(mechanism, _OF_PASSWORDS)
    fitting = {PROTOCOL, MECHANISM, *_TLS, *own}
    if others := sorted(set(settings) - fitting):
        raise _invalid(where, f"setting {others[0]} does not belong to {MECHANISM}={mechanism}")
    if mechanism == jaas.OAUTHBEARER:
        return ClientLogin(_token_source(settings, where))
    if mechanism == jaas.GSSAPI:
        return _kerberos(settings, where)
    if (JAAS in settings) == (USER in settings):
        raise _invalid(where, f"either {JAAS} or {USER} is needed")
    if JAAS not in settings:
        password = _secret(settings, where, USER, PASSWORD_FILE, PASSWORD_VARIABLE)
        return ClientLogin(Login(mechanism, settings[USER], password))
    try:
        return ClientLogin(jaas.login(mechanism, settings[JAAS]))
    except JaasError as error:
        raise _invalid(where, f"{JAAS}: {error}") from None


def _kerberos(settings: Mapping[str, str], where: str) -> ClientLogin:
    """Raises ClientError."""
    try:
        return ClientLogin(jaas.kerberos(settings.get(JAAS, ""), settings.get(SERVICE)))
    except JaasError as error:
        raise _invalid(where, f"{JAAS}: {error}") from None
    except KerberosMissing as error:
        raise _invalid(where, str(error)) from None


def _token_source(settings: Mapping[str, str], where: str) -> TokenSource:
    """Raises ClientError."""
    if JAAS in settings:
        try:
            jaas.check_server(jaas.OAUTHBEARER, settings[JAAS])
        except JaasError as error:
            raise _invalid(where, f"{JAAS}: {error}") from None
    if settings.get(LOGIN_HANDLER, "") not in {"", *_HANDLERS}:
        raise _invalid(where, f"{LOGIN_HANDLER}={settings[LOGIN_HANDLER]} is not supported")
    url = settings.get(TOKEN_URL, "")
    if (wrong := fetch.wrong_with(url)) is not None:
        raise _invalid(where, f"{TOKEN_URL}={url}: {wrong}")
    of_provider = {CLIENT_ID, CLIENT_SECRET, SECRET_FILE, SECRET_VARIABLE, SCOPE} & set(settings)
    if TokenEndpoint(url).is_file:
        if of_provider:
            raise _invalid(where, f"{min(of_provider)} does not belong to a file of {TOKEN_URL}")
        return TokenSource(TokenEndpoint(url))
    if not settings.get(CLIENT_ID):
        raise _invalid(where, f"{TOKEN_URL} needs {CLIENT_ID}")
    secret = settings.get(CLIENT_SECRET)
    if secret is None:
        secret = _secret(settings, where, CLIENT_ID, SECRET_FILE, SECRET_VARIABLE)
    elif of_provider & {SECRET_FILE, SECRET_VARIABLE}:
        raise _invalid(where, f"{CLIENT_SECRET} is set twice")
    return TokenSource(TokenEndpoint(url, settings[CLIENT_ID], secret, settings.get(SCOPE, "")))


def _secret(settings: Mapping[str, str], where: str, user: str, file_name: str, variable_name: str) -> str:
    """The secret that one of the two settings names. Raises ClientError."""
    file, variable = settings.get(file_name), settings.get(variable_name)
    if (file is None) == (variable is None):
        raise _invalid(where, f"{user} needs either {file_name} or {variable_name}")
    if variable is not None:
        if not (found := os.environ.get(variable)):
            raise _invalid(where, f"{variable_name}: the environment has no {variable}")
        return found
    assert file is not None
    try:
        found = first_line(Path(file))
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "is no text"
        raise _invalid(where, f"{file_name}={file}: {reason}") from None
    if not found:
        raise _invalid(where, f"{file_name}={file}: its first line is empty")
    return found


def _invalid(where: str, reason: str) -> ClientError:
    return ClientError(Failure.INVALID, reason, what=where)
