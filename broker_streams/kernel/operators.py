"""The processor of each kind of step.

A module of kernel/processors registers its processors with `@operator(Step)`. The decorated class or function is called
with the step, and returns the processor of one task.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from broker_streams.kernel.processor import Processing
from broker_streams.plan.steps import Step

P = TypeVar("P", bound=Callable[[Any], Processing])
_OPERATORS: dict[type[Step], Callable[[Any], Processing]] = {}


def operator(*kinds: type[Step]) -> Callable[[P], P]:
    """Register a processor for kinds of steps. Raises TypeError: there is one for the kind."""

    def register(make: P) -> P:
        for kind in kinds:
            if kind in _OPERATORS:
                raise TypeError(f"{kind.__name__} has a processor already")
            _OPERATORS[kind] = make
        return make

    return register


def processor_of(step: Step) -> Processing:
    """Raises LookupError: the kernel cannot run this step."""
    make = _OPERATORS.get(type(step))
    if make is None:
        raise LookupError(f"no processor runs steps of the kind {type(step).KIND or type(step).__name__}")
    return make(step)
