"""State shared by pages, acts and sockets: the clusters, the identity of the request, and the registered pages."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from broker_cy.client.errors import ClientError, Failure
from dashboard.security.roles import Identity, Need, Role, decide

if TYPE_CHECKING:
    from dash.development.base_component import Component

    from dashboard.collector.hub import ClusterHub
    from dashboard.security import Security

# Set by the outermost middleware for the task of each request.
IDENTITY: ContextVar[Identity] = ContextVar("dashboard_identity")


@dataclass(frozen=True, slots=True)
class Page:
    """A page at /c/CLUSTER/`name`. `layout` is called with the cluster and the query; `parent` is the list to which a
    page about one subject belongs. Links of earlier releases contain `old_names`.
    """

    name: str
    title: str
    layout: Callable[..., Component]
    in_navigation: bool = True
    role: Role = Role.VIEWER
    parent: str = ""
    old_names: tuple[str, ...] = ()


@dataclass(slots=True)
class Context:
    """One dashboard. `report` is the file of the broker-analytics report that it shows; None for no report."""

    hubs: Mapping[str, ClusterHub]
    security: Security
    is_readonly: bool = False
    pages: Sequence[Page] = field(default_factory=tuple)
    report: Path | None = None

    def identity(self) -> Identity:
        """Return the identity that sent the current request. Raises ClientError outside of requests."""
        try:
            return IDENTITY.get()
        except LookupError:
            raise ClientError(Failure.REFUSED, "the request is not logged in") from None

    def hub(self, cluster: str) -> ClusterHub:
        """Return a cluster that the viewer may see. Raises ClientError."""
        reason = decide(self.identity(), Need(Role.VIEWER, cluster, (), ()))
        if reason:
            raise ClientError(Failure.REFUSED, reason)
        try:
            return self.hubs[cluster]
        except KeyError:
            raise ClientError(Failure.INVALID, f"unknown cluster {cluster!r}") from None

    def list_page(self, page: str) -> str:
        """Return the list to which a page belongs: itself, if it is not about one subject."""
        return next((each.parent for each in self.pages if each.name == page and each.parent), page)

    def viewer_facts(self, cluster: str) -> dict[str, Any]:
        """Return the facts about the viewer that the browser needs to show only usable actions."""
        identity = self.identity()
        hub = self.hubs.get(cluster)
        return {
            "user": identity.name,
            "role": int(identity.role),
            "readonly": self.is_readonly or (hub is not None and hub.is_readonly),
            "login": identity.login,
        }
