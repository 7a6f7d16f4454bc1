"""A user's function on all of its paths, with traced arguments.

The function runs once for each outcome of its comparisons, and once more with None in place of each value that it used:
`if order is None` shows nothing to a traced value. An error that the function's own module raises ends a path without a
result. Any other error may come from the traced values: then the function is opaque, and its result may come from all
of its arguments.
"""

from __future__ import annotations

import dis
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import CodeType, TracebackType
from typing import Any, Final, NamedTuple

from broker_streams.plan.lineage.columns import Use
from broker_streams.plan.lineage.shapes import UNSEEN, Origins, Shape, changed, deciding, united
from broker_streams.plan.lineage.tracing import Path, Place, Run, TooLong

RUNS_MAX: Final = 256
"""Runs of one function. One that has more paths is opaque."""
KNOWN_MAX: Final = 64
"""Names of fields that are tried in copies of a record."""
RESULTS_MAX: Final = 100
"""Results that are taken from one iterable: a generator may have no end."""
_NULL: Final = Shape(constant="null")
_UNPACKED: Final = re.compile(r"not enough values to unpack \(expected (?:at least )?(\d+), got \d+\)")


class Found(NamedTuple):
    """The shapes of the parts of all results, such as key and value. `reason`: why it is opaque, or ""."""

    parts: tuple[Shape, ...]
    conditions: Origins
    reason: str


Split = Callable[[Any], Iterable[tuple[Any, ...]]]
"""Takes a result apart: the results in it, each as its parts. Raises TypeError, ValueError: it has another form."""


def whole(result: Any) -> Iterable[tuple[Any, ...]]:
    """The result is one value."""
    return [(result,)]


def trace(call: Callable[..., Any], arguments: Mapping[str, Shape], split: Split = whole, parts: int = 1) -> Found:
    """Run `call` with traced arguments, in their order. `parts`: how many parts `split` makes."""
    search = _Search(call, arguments, split, parts)
    try:
        search.run_all()
    except TooLong:
        search.reason = search.reason or "it makes too many comparisons"
    return search.found()


@dataclass(slots=True)
class _Results:
    """The parts of the results of all runs in which the same values are None, and the columns that decided."""

    parts: list[tuple[Shape, ...]] = field(default_factory=list)
    conditions: Origins = frozenset()


class _Search:
    """The runs of one function."""

    def __init__(self, call: Callable[..., Any], arguments: Mapping[str, Shape], split: Split, parts: int) -> None:
        self._call, self._arguments, self._split, self._parts = call, arguments, split, parts
        self._known = tuple(_names_in(call))[:KNOWN_MAX]
        self._elements = 1
        self._results: dict[frozenset[Place], _Results] = {}
        # The columns of all places that a run used.
        self._places: dict[Place, Shape] = {}
        self._runs = 0
        self.reason = ""

    def run_all(self) -> None:
        """Raises TooLong."""
        waiting: list[frozenset[Place]] = [frozenset()]
        for absent in waiting:
            known = set(self._places)
            self._all_decisions(absent)
            if self.reason:
                return
            # A value that only this run used is tried as None together with those that led to it.
            waiting += [absent | {place} for place in self._places if place not in known]

    def _all_decisions(self, absent: frozenset[Place]) -> None:
        """Run all outcomes of comparisons."""
        decisions: list[bool] = []
        while True:
            self._runs += 1
            if self._runs > RUNS_MAX:
                self.reason = f"it has more than {RUNS_MAX} paths"
                return
            run = Run(Path(tuple(decisions), absent, self._known, self._elements))
            if self._once(run):
                # The same path again, with other assumptions.
                continue
            self._places |= run.places
            self.reason = self.reason or run.reason
            decisions = run.decisions[: run.decided]
            while decisions and not decisions[-1]:
                decisions.pop()
            if not decisions or self.reason:
                return
            decisions[-1] = False

    def _once(self, run: Run) -> bool:
        """One run. Returns whether it has to be repeated, because it met a limit that is now lifted."""
        given = [run.value((name,), shape) for name, shape in self._arguments.items()]
        results = self._results.setdefault(run.path.absent, _Results())
        try:
            made = list(_first(self._split(self._call(*given)), RESULTS_MAX))
            if any(len(each) != self._parts for each in made):
                raise TypeError(f"a result with {self._parts} parts is expected")
        except Exception as error:  # The user's function may raise any.
            return self._failed(run, error)
        results.parts += [tuple(run.result(part) for part in each) for each in made]
        results.conditions |= run.conditions
        return False

    def _failed(self, run: Run, error: Exception) -> bool:
        missing = error.args[0] if isinstance(error, KeyError) and error.args else None
        if isinstance(missing, str) and missing not in self._known and len(self._known) < KNOWN_MAX:
            self._known += (missing,)
            return True
        if (unpacked := _UNPACKED.match(str(error))) and self._elements == 1:
            self._elements = int(unpacked[1])
            return True
        if not run.path.absent and not _raised_by(self._call, error.__traceback__):
            self.reason = f"{type(error).__name__}: {error}"[:200]
        return False

    def found(self) -> Found:
        parts = tuple(self._part(at) for at in range(self._parts))
        conditions = frozenset(each for results in self._results.values() for each in results.conditions)
        if not self.reason:
            return Found(parts, conditions, "")
        read = (changed(each.all_origins(), Use.TRANSFORMATION) for each in self._arguments.values())
        origins = frozenset(each for some in read for each in some)
        return Found(tuple(each.using(origins).opaque() for each in parts), conditions, self.reason)

    def _part(self, at: int) -> Shape:
        """One part of all results. A field that differs between paths depends on what decided."""
        found: list[Shape] = []
        for absent, results in self._results.items():
            shapes = [each[at] for each in results.parts]
            if absent:
                # The None of the run itself stands for a value of the column.
                shapes = [each for each in map(_nulls_unseen, shapes) if each != UNSEEN]
            if not shapes:
                continue
            shape = _decided(united(shapes), shapes, results.conditions)
            if absent and found:
                columns = frozenset(each for place in absent for each in deciding(self._places[place], Use.CONDITIONAL))
                shape = _decided(shape, [shape, found[0]], columns)
            found.append(shape)
        return _tidy(united(found)).simple()


def _decided(shape: Shape, variants: list[Shape], conditions: Origins) -> Shape:
    """Add the conditions to those fields that differ between the paths."""
    variants = [each for each in variants if each != UNSEEN]
    if not conditions or all(each == variants[0] for each in variants):
        return shape
    records = [each for each in variants if each.is_record]
    if not shape.is_record or not records:
        return shape.using(conditions)
    fields = {
        name: _decided(each, [other.child(name) for other in records], conditions)
        for name, each in shape.fields.items()
    }
    rest = shape.rest
    if rest is not None:
        rest = _decided(rest, [other.rest or Shape() for other in records], conditions)
    return Shape(shape.origins, fields, rest, shape.is_opaque)


def _nulls_unseen(shape: Shape) -> Shape:
    if not shape.is_record:
        return UNSEEN if shape == _NULL else shape
    fields = {name: UNSEEN if each == _NULL else each for name, each in shape.fields.items()}
    return Shape(shape.origins, fields, shape.rest, shape.is_opaque)


def _tidy(shape: Shape) -> Shape:
    """A column is no condition of its own value."""
    direct = {each.column for each in shape.origins if each.use.is_direct}
    return Shape(
        frozenset(each for each in shape.origins if each.use.is_direct or each.column not in direct),
        {name: _tidy(each) for name, each in shape.fields.items()},
        None if shape.rest is None else _tidy(shape.rest),
        shape.is_opaque,
        shape.constant,
        "" if shape == UNSEEN else shape.mark,
    )


def _first(of: Iterable[Any], count: int) -> Iterator[Any]:
    for _, each in zip(range(count), of, strict=False):
        yield each


def _names_in(call: Callable[..., Any]) -> Iterator[str]:
    """The texts in the code of a function: the names of fields are among them."""
    code = getattr(call, "__code__", None)
    seen: dict[str, None] = {}
    waiting: list[Any] = [code] if isinstance(code, CodeType) else []
    while waiting:
        for each in waiting.pop().co_consts:
            if isinstance(each, CodeType):
                waiting.append(each)
            elif isinstance(each, str) and each.isidentifier():
                seen[each] = None
    return iter(seen)


def _raised_by(call: Callable[..., Any], trace: TracebackType | None) -> bool:
    """Whether a `raise` in the module of the function is the cause: the user ends this path on purpose."""
    code = getattr(call, "__code__", None)
    if code is None or trace is None:
        return False
    while trace.tb_next is not None:
        trace = trace.tb_next
    frame = trace.tb_frame
    if frame.f_code.co_filename != code.co_filename:
        return False
    return any(
        each.offset == trace.tb_lasti and each.opname == "RAISE_VARARGS" for each in dis.get_instructions(frame.f_code)
    )
