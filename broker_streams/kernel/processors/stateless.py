"""Processors of the steps without a store.

`forward_all` is enough for them: they change neither timestamp nor headers, and except for a branch they have no child
to choose.
"""

from __future__ import annotations

from broker_streams.kernel.operators import operator
from broker_streams.kernel.processor import Forward, Processor, ProcessorContext
from broker_streams.plan.steps import stateless as steps
from broker_streams.records import Record


class _Stateless(Processor):
    """`_forward` is the call for all children, looked up once."""

    def init(self, context: ProcessorContext) -> None:
        super().init(context)
        self._forward = context.forward_all


@operator(steps.Filter)
class Filter(_Stateless):
    def __init__(self, step: steps.Filter) -> None:
        self._predicate = step.predicate.call
        self._negate = step.negate

    def process(self, record: Record) -> None:
        if bool(self._predicate(record.key, record.value)) is not self._negate:
            self._forward(record)


@operator(steps.FilterNullKey)
class FilterNullKey(_Stateless):
    def __init__(self, step: steps.FilterNullKey) -> None:
        pass

    def process(self, record: Record) -> None:
        if record.key is not None:
            self._forward(record)


@operator(steps.Map)
class Map(_Stateless):
    def __init__(self, step: steps.Map) -> None:
        self._mapper = step.mapper.call

    def process(self, record: Record) -> None:
        key, value = _pair(self._mapper(record.key, record.value))
        self._forward(Record(key, value, record.timestamp, record.headers))


@operator(steps.FlatMap)
class FlatMap(_Stateless):
    def __init__(self, step: steps.FlatMap) -> None:
        self._mapper = step.mapper.call

    def process(self, record: Record) -> None:
        timestamp, headers, forward = record.timestamp, record.headers, self._forward
        pairs = self._mapper(record.key, record.value)
        if pairs is None:
            raise TypeError("a mapper of flat_map returned None; it returns an iterable of (key, value)")
        for each in pairs:
            key, value = _pair(each)
            forward(Record(key, value, timestamp, headers))


@operator(steps.SelectKey)
class SelectKey(_Stateless):
    def __init__(self, step: steps.SelectKey) -> None:
        self._mapper = step.mapper.call

    def process(self, record: Record) -> None:
        value = record.value
        self._forward(Record(self._mapper(record.key, value), value, record.timestamp, record.headers))


@operator(steps.MapValues)
def map_values(step: steps.MapValues) -> Processor:
    return _MapValuesWithKey(step) if step.with_key else _MapValues(step)


class _MapValues(_Stateless):
    def __init__(self, step: steps.MapValues) -> None:
        self._mapper = step.mapper.call

    def process(self, record: Record) -> None:
        self._forward(Record(record.key, self._mapper(record.value), record.timestamp, record.headers))


class _MapValuesWithKey(_MapValues):
    def process(self, record: Record) -> None:
        key = record.key
        self._forward(Record(key, self._mapper(key, record.value), record.timestamp, record.headers))


@operator(steps.FlatMapValues)
def flat_map_values(step: steps.FlatMapValues) -> Processor:
    return _FlatMapValuesWithKey(step) if step.with_key else _FlatMapValues(step)


class _FlatMapValues(_Stateless):
    def __init__(self, step: steps.FlatMapValues) -> None:
        self._mapper = step.mapper.call

    def process(self, record: Record) -> None:
        key, timestamp, headers, forward = record.key, record.timestamp, record.headers, self._forward
        for value in self._mapper(record.value):
            forward(Record(key, value, timestamp, headers))


class _FlatMapValuesWithKey(_FlatMapValues):
    def process(self, record: Record) -> None:
        key, timestamp, headers, forward = record.key, record.timestamp, record.headers, self._forward
        for value in self._mapper(key, record.value):
            forward(Record(key, value, timestamp, headers))


@operator(steps.Branch)
class Branch(Processor):
    """A record goes to one child only: the first whose predicate is true."""

    def __init__(self, step: steps.Branch) -> None:
        self._step = step

    def init(self, context: ProcessorContext) -> None:
        """Raises LookupError: a branch of the step is no child."""
        super().init(context)
        step = self._step
        self._branches = tuple((each.call, context.child(name)) for each, name in step.children)
        self._default: Forward | None = None if step.default is None else context.child(step.default)

    def process(self, record: Record) -> None:
        key, value = record.key, record.value
        for predicate, forward in self._branches:
            if predicate(key, value):
                forward(record)
                return
        if self._default is not None:
            self._default(record)


@operator(steps.PassThrough)
class PassThrough(_Stateless):
    def __init__(self, step: steps.PassThrough) -> None:
        pass

    def process(self, record: Record) -> None:
        self._forward(record)


@operator(steps.Peek)
def peek(step: steps.Peek) -> Processor:
    return _Peek(step) if step.forwards else _ForEach(step)


class _ForEach(_Stateless):
    def __init__(self, step: steps.Peek) -> None:
        self._action = step.action.call

    def process(self, record: Record) -> None:
        self._action(record.key, record.value)


class _Peek(_ForEach):
    def process(self, record: Record) -> None:
        self._action(record.key, record.value)
        self._forward(record)


@operator(steps.Print)
class Print(Processor):
    def __init__(self, step: steps.Print) -> None:
        self._write = step.write.call
        self._label = step.label
        self._mapper = _key_and_value if step.mapper is None else step.mapper.call

    def process(self, record: Record) -> None:
        self._write(f"[{self._label}]: {self._mapper(record.key, record.value)}")


def _key_and_value(key: object, value: object) -> str:
    return f"{key}, {value}"


def _pair(found: tuple[object, object]) -> tuple[object, object]:
    """Raises TypeError: a mapper returned something else than a pair of key and value."""
    try:
        key, value = found
    except (TypeError, ValueError):
        raise TypeError(f"a mapper returned {found!r}; it returns (key, value)") from None
    return key, value
