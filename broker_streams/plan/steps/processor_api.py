"""Steps whose processors users write."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from broker_streams.plan.functions import Function
from broker_streams.plan.steps import Step


@dataclass(frozen=True)
class Process(Step):
    """`supplier()` returns the processor of one task (KIP-478)."""

    KIND: ClassVar[str] = "process.1"
    supplier: Function


@dataclass(frozen=True)
class ProcessValues(Step):
    """As Process; the processor must not change keys (KIP-820)."""

    KIND: ClassVar[str] = "process-values.1"
    supplier: Function
