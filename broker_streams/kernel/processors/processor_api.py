"""Processors of users."""

from __future__ import annotations

from typing import Any

from broker_streams.kernel.operators import operator
from broker_streams.kernel.processor import Processor, ProcessorContext
from broker_streams.plan.functions import Function
from broker_streams.plan.steps.processor_api import Process, ProcessValues
from broker_streams.records import Record


@operator(Process)
def process(step: Process) -> Processor:
    """Raises TypeError: the supplier returned no processor."""
    return _supplied(step.supplier)


def _supplied(supplier: Function) -> Processor:
    made = supplier.call()
    if not isinstance(made, Processor):
        raise TypeError(f"supplier {supplier.text} returned {made!r}; it returns a broker_streams.Processor")
    return made


class FixedKeyContext(ProcessorContext):
    """The context of a processor that must not change keys."""

    def __init__(self, context: ProcessorContext) -> None:
        self.__dict__.update(context.__dict__)
        # The record that is processed now.
        self.record: Record | None = None

    def forward(self, record: Record, child: str | None = None) -> None:
        """Raises ValueError: the record has another key than the one that is processed."""
        given = self.record
        if given is not None and record.key is not given.key and record.key != given.key:
            raise ValueError(f"{self.node} forwards key {record.key!r} for {given.key!r}: only process changes keys")
        super().forward(record, child)


@operator(ProcessValues)
class FixedKeyProcessor(Processor):
    def __init__(self, step: ProcessValues) -> None:
        """Raises TypeError: the supplier returned no processor."""
        self._processor = _supplied(step.supplier)
        self._process: Any = self._processor.process

    def init(self, context: ProcessorContext) -> None:
        super().init(context)
        self._fixed = FixedKeyContext(context)
        self._processor.init(self._fixed)

    def process(self, record: Record) -> None:
        fixed = self._fixed
        fixed.record = record
        try:
            self._process(record)
        finally:
            fixed.record = None

    def close(self) -> None:
        self._processor.close()
