"""What the connections of a process log in with: the settings of a Kafka client, in a file that `--command-config`
names.

Workers learn the name of the file from the environment, those on other hosts from their own command line: so no secret
is in a process list, in a message to a worker, or in a report.
"""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path
from typing import Final

from broker_cy.client.security import OPEN, ClientSecurity, security_of
from broker_cy.client.security import librdkafka_settings as of_librdkafka

VARIABLE: Final = "BROKER_LOAD_COMMAND_CONFIG"


def choose(path: Path) -> None:
    """Use what the file says from now on, also in processes that this one starts. Raises ClientError."""
    _security(str(path))
    os.environ[VARIABLE] = str(path.absolute())


def chosen() -> ClientSecurity:
    """What connections of this process need. Raises ClientError."""
    path = os.environ.get(VARIABLE)
    return _security(path) if path else OPEN


@cache
def _security(path: str) -> ClientSecurity:
    return security_of(Path(path))


def librdkafka_settings() -> dict[str, str]:
    """The settings of confluent-kafka that say the same. Raises ClientError where there are none."""
    path = os.environ.get(VARIABLE)
    return of_librdkafka(Path(path)) if path else {}
