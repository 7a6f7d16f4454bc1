"""Our own cases of SQL, one for each row of features: tests/broker_sql/cases/*.yaml."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker_sql.errors import SqlError
from tests.broker_sql.planner.case_files import Session, SqlCase, load

FOLDER = Path(__file__).parent.parent / "cases"
CASES = [
    pytest.param(case, id=f"{path.stem}: {case.name}") for path in sorted(FOLDER.glob("*.yaml")) for case in load(path)
]


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
