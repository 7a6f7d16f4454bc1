"""One deliberate difference between this broker's responses and those of Apache Kafka 4.3.1."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

ABSENT: Final = "<nothing>"
ANY: Final = object()
TEXT: Final = object()  # a string that is not empty


@dataclass(frozen=True)
class Difference:
    """`step` (script-vN: label) and `path` (in the response) are shell patterns; `theirs` and `ours` are the values
    there: ABSENT is the field's default value.
    """

    step: str
    path: str
    theirs: object
    ours: object
    reason: str
