"""Functions as Spark sends them to other processes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from broker_sql.functions import Environment, standard
from broker_sql.functions.python import python_function
from tests.broker_sql.functions.support import kind, kinds

cloudpickle = pytest.importorskip("pyspark.cloudpickle")


def copied(value: Any) -> Any:
    return cloudpickle.loads(cloudpickle.dumps(value))


@pytest.mark.parametrize(
    ("name", "types", "values"),
    [
        ("LPAD", ["STRING", "INT", "STRING"], ("a", 3, "x")),
        ("ROUND", ["DECIMAL(4, 2)"], (None,)),
        ("FORMAT_TIMESTAMP", ["TIMESTAMP", "STRING", "STRING"], (0, "HH:mm z", "Asia/Tokyo")),
        ("TO_JSON_STRING", ["ARRAY<STRUCT<A INT>>"], ([{"A": 1}],)),
        ("REGEXP_REPLACE", ["STRING", "STRING", "STRING"], ("ab", "(a)", "$1$1")),
        ("EXTRACTJSONFIELD", ["STRING", "STRING"], ('{"a": 1.50}', "$.a")),
        ("GREATEST", ["INT", "INT"], (1, None)),
        ("ARRAY_JOIN", ["ARRAY<DOUBLE>"], ([1.0],)),
        ("CONVERT_TZ", ["TIMESTAMP", "STRING", "STRING"], (0, "UTC", "Europe/Paris")),
    ],
)
def test_scalar_functions(name: str, types: list[str], values: tuple[Any, ...]) -> None:
    call = standard().scalar(name, kinds(*types)).call
    assert copied(call)(*values) == call(*values)


@pytest.mark.parametrize(
    ("name", "types", "constants"),
    [
        ("SUM", ["DECIMAL(4, 2)"], {}),
        ("COUNT_DISTINCT", ["STRING"], {}),
        ("TOPK", ["INT", "STRING", "INT"], {2: 1}),
        ("LATEST_BY_OFFSET", ["INT", "INT"], {1: 2}),
        ("STDDEV_SAMPLE", ["DOUBLE"], {}),
        ("COLLECT_LIST", ["INT"], {}),
    ],
)
def test_aggregate_functions(name: str, types: list[str], constants: dict[int, Any]) -> None:
    found = copied(standard().aggregate(name, kinds(*types), constants))
    assert found.result(found.initialize()) in (0, [], 0.0)


def test_functions_in_python() -> None:
    made = python_function(
        "f", [("n", kind("INT"))], kind("INT"), "import math\ndef f(n):\n    return math.floor(n / 2)"
    )
    call = standard().extended([made]).scalar("f", kinds("INT")).call
    assert copied(call)(5) == 2
    with pytest.raises(TypeError):
        copied(call)("x")


def test_copies_are_random() -> None:
    """If this fails, several processes make the same UUIDs."""
    for name in ("UUID", "RANDOM"):
        call: Callable[[], Any] = standard().scalar(name, []).call
        assert len({call(), *(copied(call)() for _ in range(3))}) == 4


@pytest.mark.parametrize(("name", "wanted"), [("EARLIEST_BY_OFFSET", "old"), ("LATEST_BY_OFFSET", "new")])
def test_copies_number_records_on(name: str, wanted: str) -> None:
    """If this fails, a merged session has the wrong value on Spark, where each batch has a copy."""
    found = standard(Environment()).aggregate(name, kinds("STRING"))
    states = []
    for value in ("old", "new"):
        batch = copied(found)
        states.append(batch.add(value, batch.add(None, batch.initialize())))
    assert found.result(found.merge(states[1], states[0])) == wanted
