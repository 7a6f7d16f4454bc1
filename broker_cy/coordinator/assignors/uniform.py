"""Kafka's uniform assignor, the default of consumer groups: equal numbers of partitions, and few moves."""

from __future__ import annotations

from broker_cy.coordinator.assignors import uniform_heterogeneous, uniform_homogeneous
from broker_cy.coordinator.assignors.spec import Assignment, GroupSpec


def assign(spec: GroupSpec) -> dict[str, Assignment]:
    """Return the target assignment of each member."""
    if not spec.members:
        return {}
    if spec.is_homogeneous:
        return uniform_homogeneous.assign(spec)
    return uniform_heterogeneous.assign(spec)
