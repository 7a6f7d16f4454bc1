"""Our own cases of SQL, one for each row of features: tests/broker_sql/cases/*.yaml."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from broker_sql.errors import SqlError
from broker_streams.plan.codec import from_json, functions_of, to_json
from broker_streams.plan.topology import Topology
from tests.broker_sql.planner.case_files import Session, SqlCase, load

FOLDER = Path(__file__).parent.parent / "cases"
ALL = [(path.stem, case) for path in sorted(FOLDER.glob("*.yaml")) for case in load(path)]
CASES = [pytest.param(case, id=f"{stem}: {case.name}") for stem, case in ALL]


@pytest.mark.parametrize("case", CASES)
def test_case(case: SqlCase) -> None:
    session = Session(case.properties)
    if case.error is not None:
        with pytest.raises(SqlError) as caught:
            session.run(case.statements)
        assert case.error in str(caught.value)
        return
    planned = session.run(case.statements)
    if case.schema is not None:
        assert str(planned.schema) == case.schema
    assert session.records(case.inputs) == list(case.outputs)
    for query in session.queries:
        assert query.topology is not None
        check_plan_as_text(query.topology.plan)


def check_plan_as_text(plan: Topology) -> None:
    """A plan is data, besides functions and serdes: another process reads it as it was written."""
    serdes = {serde.name: serde for each in (*plan.nodes, *plan.stores) for serde in _serdes(each)}
    text = to_json(plan)
    read = from_json(text, functions_of(plan), serdes.__getitem__)
    assert to_json(read) == text


def _serdes(part: Any) -> Iterator[Any]:
    for name in ("key_serde", "value_serde"):
        if (serde := getattr(part, name, None)) is not None:
            yield serde
    for each in getattr(part, "options", {}).values():
        if hasattr(each, "serialize"):
            yield each
    step = getattr(part, "step", None)
    for each in vars(step).values() if step is not None else ():
        if hasattr(each, "serialize"):
            yield each
