"""The base of all steps: the work of one processor node as frozen data with a name and a version.

The modules of this folder hold the steps of one family each. The kernel has a processor for each kind
(kernel/operators.py). A step that changes its meaning gets a new version; a released version stays readable.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True)
class Step:
    """`KIND` is the name in JSON, with its version: `filter.1`."""

    KIND: ClassVar[str] = ""

    # The registry of all kinds, for reading plans.
    kinds: ClassVar[dict[str, type[Step]]] = {}

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if not cls.KIND:
            return
        if cls.KIND in Step.kinds and Step.kinds[cls.KIND].__qualname__ != cls.__qualname__:
            raise TypeError(f"two steps have the kind {cls.KIND}")
        Step.kinds[cls.KIND] = cls
