"""The login of a process's connections: the settings of a Kafka client, in the file of `--command-config`.

Workers get the name of the file from the environment, or on other hosts from their own command line, so that no secret
is in a process list, in a message to a worker, or in a report.
"""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path
from typing import Final

from broker_cy.client.security import OPEN, ClientSecurity, read_command_config, security_of
from broker_cy.client.security import librdkafka_settings as of_librdkafka

VARIABLE: Final = "BROKER_LOAD_COMMAND_CONFIG"


def choose(path: Path) -> None:
    """Use the file's settings from now on, also in processes that this one starts. Raises ClientError."""
    _security(str(path))
    os.environ[VARIABLE] = str(path.absolute())


def chosen() -> ClientSecurity:
    """The security settings of this process's connections. Raises ClientError."""
    path = os.environ.get(VARIABLE)
    return _security(path) if path else OPEN


@cache
def _security(path: str) -> ClientSecurity:
    return security_of(read_command_config(Path(path)), path)


def librdkafka_settings() -> dict[str, str]:
    """The same settings for confluent-kafka. Raises ClientError if it has none of this kind."""
    path = os.environ.get(VARIABLE)
    return of_librdkafka(read_command_config(Path(path)), path) if path else {}
