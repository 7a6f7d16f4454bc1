"""The interface of a cluster's hub that channels use. They cannot import the hub, because it creates them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from broker_cy.console.alerts.watch import Alerting
    from broker_cy.console.session import Session
    from broker_registry.console.session import SchemaSession
    from dashboard.collector.alert_log import AlertLog
    from dashboard.collector.group_readings import GroupReadings
    from dashboard.collector.history import History
    from dashboard.collector.move_runs import MoveRuns
    from dashboard.security.audit import Audit
    from dashboard.security.masking import Masking


class Cluster(Protocol):
    """`dashboard.collector.hub.ClusterHub`; each is described there."""

    name: str
    session: Session
    history: History
    alerts: Alerting
    alert_log: AlertLog
    audit: Audit | None
    masking: Masking | None
    group_readings: GroupReadings
    moves: MoveRuns
    schemas: SchemaSession | None
