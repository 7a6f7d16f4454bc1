"""Steps without a store: one processor at a time, with the records that reach each child."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from broker_streams.kernel.operators import operator, processor_of
from broker_streams.kernel.processor import Processor, ProcessorContext, TaskState
from broker_streams.kernel.processors import stateless
from broker_streams.plan.functions import Function
from broker_streams.plan.steps import Step
from broker_streams.plan.steps import stateless as steps
from broker_streams.records import Record

HEADERS = (("trace", b"7"),)


def function(call: Callable[..., Any]) -> Function:
    return Function("node.function", call)


def run(step: Step, *pairs: tuple[Any, Any], children: tuple[str, ...] = ("child",)) -> list[tuple[str, Any, Any]]:
    """(child, key, value) of all records that `step` passes on. Timestamps and headers stay those of the input."""
    out: list[tuple[str, Any, Any]] = []

    def taken_by(child: str) -> Callable[[Record], None]:
        def take(record: Record) -> None:
            assert (record.timestamp, record.headers) == (1_000, HEADERS)
            out.append((child, record.key, record.value))

        return take

    def schedule(*args: object) -> Any:
        raise AssertionError("a step without a store schedules nothing")

    context = ProcessorContext(
        "node", TaskState("app", (0, 0)), {each: taken_by(each) for each in children}, {}, schedule, lambda: None
    )
    processor = processor_of(step)
    processor.init(context)
    for key, value in pairs:
        processor.process(Record(key, value, 1_000, HEADERS))
    processor.close()
    return out


CASES: list[tuple[Step, list[tuple[Any, Any]]]] = [
    (steps.Filter(function(lambda key, value: value > 1)), [("b", 2), (None, 3)]),
    (steps.Filter(function(lambda key, value: value > 1), negate=True), [("a", 1)]),
    # A predicate may return any value, as in all of Python.
    (steps.Filter(function(lambda key, value: key)), [("a", 1), ("b", 2)]),
    (steps.Filter(function(lambda key, value: key), negate=True), [(None, 3)]),
    (steps.FilterNullKey(), [("a", 1), ("b", 2)]),
    (steps.Map(function(lambda key, value: (value, key))), [(1, "a"), (2, "b"), (3, None)]),
    (steps.MapValues(function(lambda value: value * 10)), [("a", 10), ("b", 20), (None, 30)]),
    (
        steps.MapValues(function(lambda key, value: (key, value)), True),
        [("a", ("a", 1)), ("b", ("b", 2)), (None, (None, 3))],
    ),
    (
        steps.FlatMap(function(lambda key, value: ((value, each) for each in range(value - 1)))),
        [(2, 0), (3, 0), (3, 1)],
    ),
    (steps.FlatMapValues(function(lambda value: range(value - 1))), [("b", 0), (None, 0), (None, 1)]),
    (
        steps.FlatMapValues(function(lambda key, value: [key] * (value - 1)), True),
        [("b", "b"), (None, None), (None, None)],
    ),
    (steps.SelectKey(function(lambda key, value: value)), [(1, 1), (2, 2), (3, 3)]),
    (steps.PassThrough(), [("a", 1), ("b", 2), (None, 3)]),
]


@pytest.mark.parametrize(("step", "expected"), CASES, ids=lambda each: getattr(each, "KIND", ""))
def test_a_step_passes_on(step: Step, expected: list[tuple[Any, Any]]) -> None:
    """If this fails, an application has other results than with Kafka Streams."""
    assert run(step, ("a", 1), ("b", 2), (None, 3)) == [("child", key, value) for key, value in expected]


def test_a_record_goes_to_all_children_in_their_order() -> None:
    """If this fails, outputs of two branches that share a topic are written in another order."""
    assert run(steps.PassThrough(), ("a", 1), children=("one", "other")) == [("one", "a", 1), ("other", "a", 1)]


def test_a_branch_takes_the_first_predicate_that_is_true() -> None:
    """If this fails, a record reaches two branches, or none."""
    children = ((function(lambda key, value: value > 2), "large"), (function(lambda key, value: value > 1), "middle"))
    names = ("large", "middle", "rest")
    records = (("a", 1), ("b", 2), ("c", 3))
    assert run(steps.Branch(children, "rest"), *records, children=names) == [
        ("rest", "a", 1),
        ("middle", "b", 2),
        ("large", "c", 3),
    ]
    assert run(steps.Branch(children), *records, children=names) == [("middle", "b", 2), ("large", "c", 3)]


def test_a_branch_without_its_child_is_refused() -> None:
    """If this fails, a plan with a wrong name loses the records of one branch."""
    with pytest.raises(LookupError, match="node has no child 'rest'; its children are child"):
        run(steps.Branch((), "rest"))


def test_actions_see_each_record() -> None:
    """If this fails, `peek`, `foreach` or `print` misses records, or `foreach` passes them on."""
    seen: list[Any] = []
    peek = steps.Peek(function(lambda key, value: seen.append((key, value))))
    assert run(peek, ("a", 1)) == [("child", "a", 1)]
    for_each = steps.Peek(function(lambda key, value: seen.append(value)), forwards=False)
    assert run(for_each, ("a", 2)) == []
    assert run(steps.Print(function(seen.append), "orders"), ("a", 3)) == []
    run(steps.Print(function(seen.append), "orders", function(lambda key, value: f"{key}={value}")), ("a", 4))
    assert seen == [("a", 1), 2, "[orders]: a, 3", "[orders]: a=4"]


@pytest.mark.parametrize("step", [steps.Map, steps.FlatMap], ids=lambda each: each.KIND)
@pytest.mark.parametrize("result", [None, 7, (1,), (1, 2, 3)])
def test_a_mapper_that_returns_no_pair_is_named(step: Any, result: object) -> None:
    """If this fails, the user sees an unpacking error from inside the kernel."""
    with pytest.raises(TypeError, match="returned"):
        run(step(function(lambda key, value: result if step is steps.Map or result is None else [result])), ("a", 1))


def test_a_kind_of_step_has_one_processor() -> None:
    """If this fails, the module that is imported last decides how a step runs."""
    with pytest.raises(TypeError, match="Filter has a processor already"):
        operator(steps.Filter)(stateless.Filter)

    class Unknown(Step):
        pass

    with pytest.raises(LookupError, match="Unknown"):
        processor_of(Unknown())


def test_forward_shows_stores_the_time_of_the_record() -> None:
    """If this fails, a changelog record below a processor that changes timestamps has the time of its input."""
    task = TaskState("app", (0, 0))
    task.timestamp, task.headers = 5, HEADERS
    seen: list[Any] = []
    context = ProcessorContext(
        "node",
        task,
        {"child": lambda record: seen.append((task.timestamp, task.headers))},
        {},
        lambda *args: pytest.fail("nothing is scheduled"),
        lambda: None,
    )
    context.forward(Record("a", 1, 9))
    context.forward(Record("a", 1, 10), "child")
    assert seen == [(9, ()), (10, ())]
    assert (task.timestamp, task.headers) == (5, HEADERS)


def test_processor_is_abstract() -> None:
    """If this fails, a processor without `process` drops all records in silence."""
    with pytest.raises(NotImplementedError):
        Processor().process(Record("a", 1, 0))
