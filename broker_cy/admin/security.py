"""The security settings of a client, by the names of Kafka's clients: in `--command-config FILE` and in the cluster
file.

    security.protocol=SASL_PLAINTEXT
    sasl.mechanism=SCRAM-SHA-512
    sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required username="alice" password="...";

In place of sasl.jaas.config there may be `sasl.username` with `sasl.password.file` or `sasl.password.env`, which name a
file (its first line) or a variable of the environment that has the password: it is then in no file that others read.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from broker_cy.client.errors import ClientError, Failure
from broker_cy.client.login import ClientLogin
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
NAMES: Final = (PROTOCOL, MECHANISM, JAAS, USER, PASSWORD_FILE, PASSWORD_VARIABLE)
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
    if mechanism not in jaas.BY_PASSWORD:
        names = ", ".join(sorted(jaas.BY_PASSWORD))
        raise _invalid(where, f"{MECHANISM}={mechanism} is not supported yet: use {names}")
    if (JAAS in settings) == (USER in settings):
        raise _invalid(where, f"either {JAAS} or {USER} is needed")
    if JAAS not in settings:
        return ClientLogin(Login(mechanism, settings[USER], _password(settings, where)))
    try:
        return ClientLogin(jaas.login(mechanism, settings[JAAS]))
    except JaasError as error:
        raise _invalid(where, f"{JAAS}: {error}") from None


def _password(settings: Mapping[str, str], where: str) -> str:
    file, variable = settings.get(PASSWORD_FILE), settings.get(PASSWORD_VARIABLE)
    if (file is None) == (variable is None):
        raise _invalid(where, f"{USER} needs either {PASSWORD_FILE} or {PASSWORD_VARIABLE}")
    if variable is not None:
        if not (found := os.environ.get(variable)):
            raise _invalid(where, f"{PASSWORD_VARIABLE}: the environment has no {variable}")
        return found
    assert file is not None
    try:
        with open(Path(file).expanduser(), encoding="utf-8") as lines:
            found = lines.readline(PASSWORD_BYTES_MAX).rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "is no text"
        raise _invalid(where, f"{PASSWORD_FILE}={file}: {reason}") from None
    if not found:
        raise _invalid(where, f"{PASSWORD_FILE}={file}: its first line is empty")
    return found


def _invalid(where: str, reason: str) -> ClientError:
    return ClientError(Failure.INVALID, reason, what=where)
