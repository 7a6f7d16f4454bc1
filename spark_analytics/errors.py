"""Errors before and during the reading of records."""

from __future__ import annotations

from broker_cy.client.errors import ClientError, Failure


class SetUpError(Exception):
    """Java, PySpark, the jars or the workers of a cluster are missing; the text says what to do."""


class IngestError(ClientError):
    """The records cannot be read; the text says why, and what to do."""

    def __init__(self, reason: str) -> None:
        super().__init__(Failure.REFUSED, reason)


class NothingError(Exception):
    """There are no records in the range; the text names the range."""


class SparkFailedError(Exception):
    """Spark failed; the text has its reason."""


class DamagedError(Exception):
    """A segment is damaged; the text names the file, the byte and the offset."""
