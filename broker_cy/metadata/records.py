"""Metadata records in the form that the control plane uses."""

from __future__ import annotations

from typing import Any

from broker_cy.core.classes import NamedTuple


class MetadataLogError(Exception):
    """The metadata log or a snapshot has a record that this broker cannot apply. The message describes it and its
    place.
    """


class VersionedRecord(NamedTuple):
    """A record message of `wire.messages` and the version to write it in (Kafka's ApiMessageAndVersion)."""

    message: Any
    version: int = 0
