"""The login of a process's connections: the settings of a Kafka client, from the options that select the cluster.

Processes that this one starts get the settings from the environment, and workers on other hosts from their own command
line, so that no secret is in a process list, in a message to a worker, or in a report.
"""

from __future__ import annotations

import json
import os
from functools import cache
from pathlib import Path
from typing import Final

from broker_cy.client.clusters import ClusterEntry
from broker_cy.client.security import OPEN, ClientSecurity, read_command_config, security_of
from broker_cy.client.security import librdkafka_settings as of_librdkafka

# The settings as JSON. Other users cannot read the environment of a process.
VARIABLE: Final = "BROKER_LOAD_SECURITY"
# A file of --command-config, for plain locust.
FILE_VARIABLE: Final = "BROKER_LOAD_COMMAND_CONFIG"


def choose(cluster: ClusterEntry) -> None:
    """Use the cluster's settings from now on, also in processes that this one starts. Raises ClientError."""
    settings, where = cluster.client_settings()
    text = json.dumps([settings, where])
    _security(text)
    os.environ[VARIABLE] = text


def is_inherited() -> bool:
    """Whether the process that started this one has chosen the settings."""
    return VARIABLE in os.environ


def chosen() -> ClientSecurity:
    """The security settings of this process's connections. Raises ClientError."""
    text = _text()
    return OPEN if text is None else _security(text)


def librdkafka_settings() -> dict[str, str]:
    """The same settings for confluent-kafka. Raises ClientError if it has none of this kind."""
    text = _text()
    return {} if text is None else of_librdkafka(*json.loads(text))


def _text() -> str | None:
    if (text := os.environ.get(VARIABLE)) is not None and json.loads(text)[0]:
        return text
    file = os.environ.get(FILE_VARIABLE)
    return _of_file(file) if file else None


@cache
def _of_file(path: str) -> str:
    return json.dumps([read_command_config(Path(path)), path])


@cache
def _security(text: str) -> ClientSecurity:
    settings, where = json.loads(text)
    return security_of(settings, where)
