"""Steps of a join of two tables by their key: one for each side, and one that merges their results."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from broker_streams.plan.functions import Function
from broker_streams.plan.steps import Step
from broker_streams.plan.value_getters import ValueGetter


@dataclass(frozen=True)
class TableJoinSide(Step):
    """Joins changes of one table with rows of the other one: `joiner(left, right)`.

    `needs_this` and `needs_other`: there is a result only if this row, or the other row, exists. `is_right`: the
    changes are those of the right table.
    """

    KIND: ClassVar[str] = "table-join-side.1"
    other: ValueGetter
    joiner: Function
    needs_this: bool
    needs_other: bool
    is_right: bool
    send_old_values: bool = False
    reads_versions: bool = False


@dataclass(frozen=True)
class TableJoinMerge(Step):
    """Passes the results of both sides on, and keeps them if there is a store."""

    KIND: ClassVar[str] = "table-join-merge.1"
    store: str | None = None
    send_old_values: bool = False
