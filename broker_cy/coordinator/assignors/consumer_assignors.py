"""The assignors of consumer groups by the name that `group.consumer.assignors` and heartbeats use."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from broker_cy.coordinator.assignors import range_, uniform
from broker_cy.coordinator.assignors.spec import Assignor

CONSUMER_ASSIGNORS: Final[Mapping[str, Assignor]] = {"uniform": uniform.assign, "range": range_.assign}
