"""The security settings of a client, by the names of Kafka's clients: in `--command-config FILE` and in the cluster
file.

    security.protocol=SASL_PLAINTEXT
    sasl.mechanism=SCRAM-SHA-512
    sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required username="alice" password="...";

In place of sasl.jaas.config there may be `sasl.username` with `sasl.password.file` or `sasl.password.env`, which name a
file (its first line) or a variable of the environment that has the password: it is then in no file that others read.

With OAUTHBEARER, sasl.oauthbearer.token.endpoint.url names a file with the token, or the URL of a provider, which needs
sasl.oauthbearer.client.credentials.client.id and .client.secret, or `.client.secret.file` or `.client.secret.env`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from broker_cy.client.errors import ClientError, Failure
from broker_cy.client.login import ClientLogin
from broker_cy.client.oauth import TokenSource
from broker_cy.core import fetch
from broker_cy.core.properties import PropertiesError, read_properties_file
from broker_cy.security import jaas
from broker_cy.security.jaas import JaasError
from broker_cy.security.sasl.exchange import Login

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
LOGIN_HANDLER: Final = "sasl.login.callback.handler.class"
_OF_PASSWORDS: Final = (JAAS, USER, PASSWORD_FILE, PASSWORD_VARIABLE)
_OF_TOKENS: Final = (JAAS, TOKEN_URL, CLIENT_ID, CLIENT_SECRET, SECRET_FILE, SECRET_VARIABLE, SCOPE, LOGIN_HANDLER)
NAMES: Final = (PROTOCOL, MECHANISM, *dict.fromkeys((*_OF_PASSWORDS, *_OF_TOKENS)))
# That of Kafka which does what is done here.
_HANDLERS: Final = frozenset(
    {
        "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler",
        "org.apache.kafka.common.security.oauthbearer.secured.OAuthBearerLoginCallbackHandler",
    }
)
# Settings that begin like this and are not among NAMES protect something: they are refused, and not ignored.
PREFIXES: Final = ("security.", "sasl.", "ssl.")
PASSWORD_BYTES_MAX: Final = 4_096


def read_command_config(path: Path) -> ClientLogin | None:
    """The login in a file with the settings of a Kafka client; settings that are not about security are not read.
    Raises ClientError.
    """
    try:
        settings = read_properties_file(path)
    except PropertiesError as error:
        raise ClientError(Failure.INVALID, str(error)) from None
    return login_of({name: text for name, text in settings.items() if name.startswith(PREFIXES)}, str(path))


def login_of(settings: Mapping[str, str], where: str) -> ClientLogin | None:
    """The login that the settings say; None for PLAINTEXT. Raises ClientError about `where`."""
    unknown = sorted(set(settings) - set(NAMES))
    if unknown:
        raise _invalid(where, f"setting {unknown[0]} is not supported yet; those of security are {', '.join(NAMES)}")
    protocol = settings.get(PROTOCOL, "PLAINTEXT").upper()
    if protocol not in ("PLAINTEXT", "SASL_PLAINTEXT"):
        raise _invalid(where, f"{PROTOCOL}={protocol} is not supported yet: use PLAINTEXT or SASL_PLAINTEXT")
    if protocol == "PLAINTEXT":
        if len(settings) > (PROTOCOL in settings):
            raise _invalid(where, f"settings of SASL need {PROTOCOL}=SASL_PLAINTEXT")
        return None
    mechanism = settings.get(MECHANISM, "GSSAPI")
    if mechanism not in jaas.MECHANISMS:
        names = ", ".join(sorted(jaas.MECHANISMS))
        raise _invalid(where, f"{MECHANISM}={mechanism} is not supported yet: use {names}")
    fitting = {PROTOCOL, MECHANISM, *(_OF_TOKENS if mechanism == jaas.OAUTHBEARER else _OF_PASSWORDS)}
    if others := sorted(set(settings) - fitting):
        raise _invalid(where, f"setting {others[0]} does not belong to {MECHANISM}={mechanism}")
    if mechanism == jaas.OAUTHBEARER:
        return ClientLogin(_token_source(settings, where))
    if (JAAS in settings) == (USER in settings):
        raise _invalid(where, f"either {JAAS} or {USER} is needed")
    if JAAS not in settings:
        password = _secret(settings, where, USER, PASSWORD_FILE, PASSWORD_VARIABLE)
        return ClientLogin(Login(mechanism, settings[USER], password))
    try:
        return ClientLogin(jaas.login(mechanism, settings[JAAS]))
    except JaasError as error:
        raise _invalid(where, f"{JAAS}: {error}") from None


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
    if fetch.is_file(url):
        if of_provider:
            raise _invalid(where, f"{min(of_provider)} does not belong to a file of {TOKEN_URL}")
        return TokenSource(url)
    if not settings.get(CLIENT_ID):
        raise _invalid(where, f"{TOKEN_URL} needs {CLIENT_ID}")
    secret = settings.get(CLIENT_SECRET)
    if secret is None:
        secret = _secret(settings, where, CLIENT_ID, SECRET_FILE, SECRET_VARIABLE)
    elif of_provider & {SECRET_FILE, SECRET_VARIABLE}:
        raise _invalid(where, f"{CLIENT_SECRET} is there twice")
    return TokenSource(url, settings[CLIENT_ID], secret, settings.get(SCOPE, ""))


def _secret(settings: Mapping[str, str], where: str, user: str, file_name: str, variable_name: str) -> str:
    """What one of the two settings names. Raises ClientError."""
    file, variable = settings.get(file_name), settings.get(variable_name)
    if (file is None) == (variable is None):
        raise _invalid(where, f"{user} needs either {file_name} or {variable_name}")
    if variable is not None:
        if not (found := os.environ.get(variable)):
            raise _invalid(where, f"{variable_name}: the environment has no {variable}")
        return found
    assert file is not None
    try:
        with open(Path(file).expanduser(), encoding="utf-8") as lines:
            found = lines.readline(PASSWORD_BYTES_MAX).rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "is no text"
        raise _invalid(where, f"{file_name}={file}: {reason}") from None
    if not found:
        raise _invalid(where, f"{file_name}={file}: its first line is empty")
    return found


def _invalid(where: str, reason: str) -> ClientError:
    return ClientError(Failure.INVALID, reason, what=where)
