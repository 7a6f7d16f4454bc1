"""The step that holds back changes of a table (KIP-328)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from broker_streams.plan.steps import Step


@dataclass(frozen=True)
class Suppress(Step):
    """Keeps the latest change of each key in the buffer `store` until stream time is `wait_ms` after its time.

    That is the time of the first record of the key that waits; with `is_final`, the end of the key's window, and then
    deletions are not passed on. `max_records` and `max_bytes` bound the buffer, None: they do not. A full buffer passes
    its earliest changes on if `emits_early`, else the task ends.
    """

    KIND: ClassVar[str] = "suppress.1"
    store: str
    wait_ms: int
    is_final: bool
    max_records: int | None = None
    max_bytes: int | None = None
    emits_early: bool = False
