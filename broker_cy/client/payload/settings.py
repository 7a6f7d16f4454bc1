"""The settings of generated records: plain data that a program reads from its own files or options."""

from __future__ import annotations

from dataclasses import field
from typing import Any

from broker_cy.core.classes import dataclass


@dataclass(frozen=True)
class Payload:
    """The values of records. `kind`: "fixed", "sizes", "file", "json" or "schema".

    Sizes are those of whole values, with a prefix that the caller adds. `fields` are those of a JSON object by name,
    each with its kind and the settings of this kind (see `values`).
    """

    kind: str = "fixed"
    size: int = 100  # bytes; 0 if not "fixed"
    least: int = 0  # "sizes": bytes, lognormal or uniform between these bounds
    most: int = 0
    distribution: str = "lognormal"
    path: str = ""  # "file": each line is a value; "schema": the same as JSON, "" for random values
    # Those of `path`, read where the settings were read. "schema": encoded values, once the registry was asked.
    lines: tuple[bytes, ...] = ()
    subject: str = ""  # "schema": its newest version; "": `schema_id`
    schema_id: int = -1
    message: str = ""  # "schema": that of Protobuf; "": the first
    count: int = 0  # "schema": random values in the pool
    fields: dict[str, dict[str, Any]] = field(default_factory=dict)  # "json"
    entropy: float = 1.0  # "fixed", "sizes": share of random bytes

    @property
    def takes_prefix(self) -> bool:
        """Whether a value may follow other bytes; a prefix would make a line of a file, or JSON, invalid."""
        return self.kind in ("fixed", "sizes")


@dataclass(frozen=True)
class Keys:
    """The keys of records. `kind`: "none", "sequential", "uniform" or "zipf" (exponent `s`) of `count` keys."""

    kind: str = "none"
    count: int = 0
    s: float = 1.0
    size: int = 8  # bytes: the key's number in decimal, with leading zeros
