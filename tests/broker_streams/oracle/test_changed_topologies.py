"""The comparison is not blind: a topology that differs from that of the answers by one call or option is seen."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from tests.broker_streams.oracle import answers
from tests.broker_streams.oracle.compare import differences
from tests.broker_streams.oracle.ours import answer_of
from tests.broker_streams.oracle.spec import Spec

Change = Callable[[dict[str, Any]], bool]
"""Changes a call; False: the call has nothing to change."""


def other_filter(call: dict[str, Any]) -> bool:
    kinds = {"filter": "filter_not", "filter_not": "filter"}
    return _other(call, "call", kinds)


def other_join(call: dict[str, Any]) -> bool:
    return _other(call, "call", {"join": "left_join", "left_join": "join"})


def _other(call: dict[str, Any], field: str, values: dict[Any, Any]) -> bool:
    found = call.get(field) in values
    if found:
        call[field] = values[call[field]]
    return found


def larger_windows(call: dict[str, Any]) -> bool:
    for field in ("size_ms", "difference_ms", "gap_ms", "after_ms"):
        if field in call.get("windows", {}):
            call["windows"][field] += 4
            return True
    return False


def other_grace(call: dict[str, Any]) -> bool:
    windows = call.get("windows", {})
    if "grace_ms" not in windows:
        return False
    windows["grace_ms"] = 0 if windows["grace_ms"] else 1_000_000
    return True


def no_changelog(call: dict[str, Any]) -> bool:
    if "materialized" not in call or "logging" in call["materialized"]:
        return False
    call["materialized"]["logging"] = False
    return True


def other_order(call: dict[str, Any]) -> bool:
    """Swap old and new value of a reducer, left and right of a joiner."""
    for field in ("reducer", "joiner"):
        if "value" in str(call.get(field)) and "other" in str(call.get(field)):
            call[field] = _swapped(call[field])
            return True
    return False


def _swapped(expression: Any) -> Any:
    if isinstance(expression, list):
        return [expression[0], *(_swapped(each) for each in expression[1:])]
    return (
        {"value": "other", "other": "value"}.get(expression, expression) if isinstance(expression, str) else expression
    )


def changed(spec: Spec, change: Change) -> Spec | None:
    """The spec with the first call changed that can be; None: none can."""
    found = copy.deepcopy(dict(spec))
    return found if any(change(call) for call in found["calls"]) else None


@pytest.mark.parametrize(
    ("name", "change", "share"),
    [
        ("stateless", other_filter, 0.7),
        ("scenarios_stream_joins", other_join, 0.5),
        ("scenarios_stream_joins", larger_windows, 0.3),
        ("scenarios_stream_joins", other_order, 0.9),
        ("time_windows", larger_windows, 0.7),
        ("time_windows", other_grace, 0.5),
        ("sliding_windows", larger_windows, 0.7),
        ("session_windows", other_grace, 0.6),
        ("aggregates", no_changelog, 0.9),
        ("scenarios_table_joins", other_order, 0.7),
        ("foreign_keys", other_join, 0.5),
        ("stream_table_joins", other_join, 0.5),
    ],
)
def test_change_is_seen(name: str, change: Change, share: float) -> None:
    """If this fails, wrong results of this kind pass as equal to those of Kafka Streams."""
    theirs = answers.recorded_answers(name)
    changes = {title: changed(spec, change) for title, spec in answers.specs(name).items()}
    specs = {title: spec for title, spec in changes.items() if spec is not None and "error" not in theirs[title]}
    seen = [title for title, spec in specs.items() if differences(spec, theirs[title], answer_of(spec))]
    assert len(seen) >= share * len(specs) > 0
