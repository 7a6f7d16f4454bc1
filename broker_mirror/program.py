"""The name of the program, and how its commands end with an error."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import click

from broker_cy.client.errors import ClientError, Failure
from broker_cy.client.program import end
from broker_cy.core.config_def.types import ConfigError

PROGRAM: Final = "broker-mirror"


@contextmanager
def errors(context: click.Context, *, as_json: bool) -> Iterator[None]:
    """End the command with a message, and the exit code of the error, for ClientError and ConfigError."""
    try:
        yield
    except ClientError as error:
        context.exit(end(PROGRAM, error, as_json=as_json))
    except ConfigError as error:
        context.exit(end(PROGRAM, ClientError(Failure.INVALID, str(error)), as_json=as_json))
