"""What the connections of a process log in with: the settings of a Kafka client, in a file that `--command-config`
names.

Workers learn the name of the file from the environment, those on other hosts from their own command line: so no secret
is in a process list, in a message to a worker, or in a report.
"""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path
from typing import Any, Final

from broker_cy.client.login import ClientLogin
from broker_cy.client.security import login_without_tls
from broker_cy.security.jaas import BY_PASSWORD

VARIABLE: Final = "BROKER_LOAD_COMMAND_CONFIG"


def choose(path: Path) -> None:
    """Log in with what the file says, from now on, also in processes that this one starts. Raises ClientError."""
    _login(str(path))
    os.environ[VARIABLE] = str(path.absolute())


def chosen() -> ClientLogin | None:
    """The login of this process; None if it needs none. Raises ClientError."""
    path = os.environ.get(VARIABLE)
    return _login(path) if path else None


@cache
def _login(path: str) -> ClientLogin | None:
    return login_without_tls(Path(path), "load generators")


def librdkafka_settings(login: ClientLogin) -> dict[str, Any]:
    """The settings of confluent-kafka that say the same. Raises ValueError where there are none."""
    user, password = login.user_and_password() or ("", "")
    if login.mechanism not in BY_PASSWORD or not user:
        raise ValueError(f"the engine librdkafka logs in with a user and a password, not with {login}")
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": login.mechanism,
        "sasl.username": user,
        "sasl.password": password,
    }
