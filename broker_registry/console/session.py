"""The requests of a console to one registry. A feed is created when it is first used, and asks while it is watched."""

from __future__ import annotations

from typing import Final

from broker_cy.console.feeds import Feed, Feeds
from broker_registry.client import RegistryClient
from broker_registry.console.views import (
    Comparison,
    Subjects,
    SubjectVersions,
    VersionText,
    compare,
    read_subjects,
    read_version,
    read_versions,
)

# A version does not change, but the schemas that refer to it do: the ages of all panels mean the same.
_INTERVAL_S: Final = 10.0
_TIMEOUT_S: Final = 30.0

NOT_CONFIGURED: Final = (
    "No schema registry is known: start with --registry URL, set BROKER_CY_REGISTRY, or set registry for the cluster "
    "in the cluster file."
)


class SchemaSession:
    """See the module. It belongs to the event loop that first uses it."""

    def __init__(self, client: RegistryClient) -> None:
        self.client = client
        self._feeds = Feeds()

    def subjects(self) -> Feed[Subjects]:
        return self._feeds.get("subjects", lambda: read_subjects(self.client), _INTERVAL_S, _TIMEOUT_S)

    def versions(self, subject: str) -> Feed[SubjectVersions]:
        return self._feeds.get(
            ("versions", subject), lambda: read_versions(self.client, subject), _INTERVAL_S, _TIMEOUT_S
        )

    def version(self, subject: str, number: int) -> Feed[VersionText]:
        return self._feeds.get(
            ("version", subject, number), lambda: read_version(self.client, subject, number), _INTERVAL_S, _TIMEOUT_S
        )

    def comparison(self, subject: str, old: int, new: int) -> Feed[Comparison]:
        return self._feeds.get(
            ("comparison", subject, old, new),
            lambda: compare(self.client, subject, old, new),
            _INTERVAL_S,
            _TIMEOUT_S,
        )

    def refresh(self) -> None:
        """Refresh every feed that has subscribers."""
        self._feeds.kick_all()
