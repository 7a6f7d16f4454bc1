"""The Prometheus text format, version 0.0.4 (https://prometheus.io/docs/instrumenting/exposition_formats/)."""

from __future__ import annotations

from collections.abc import Mapping

from broker_cy.metrics.definitions import METRICS, Metric
from broker_cy.metrics.histogram import BOUNDS_S, Snapshot

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})
_BOUNDS = [f"{bound:.9g}" for bound in BOUNDS_S]


def labels_text(names: tuple[str, ...], values: tuple[str, ...]) -> str:
    """The labels as text: `{a="b",c="d"}`, or an empty string without labels."""
    if not names:
        return ""
    pairs = (f'{name}="{value.translate(_ESCAPES)}"' for name, value in zip(names, values, strict=True))
    return "{" + ",".join(pairs) + "}"


class Page:
    """The text of one scrape, family by family. Each family of the table, which is that of brokers by default, is
    written at most once, and in one piece.
    """

    def __init__(self, table: Mapping[str, Metric] = METRICS) -> None:
        self._table = table
        self.parts: list[str | bytes] = []
        self._written: set[str] = set()

    def family(self, name: str) -> None:
        """Begin a family; raises KeyError if it is not defined, ValueError if it was already written."""
        metric = self._table[name]
        if name in self._written:
            raise ValueError(f"{name} is written twice")
        self._written.add(name)
        self.parts.append(f"# HELP {name} {metric.help}\n# TYPE {name} {metric.kind}\n")

    def sample(self, name: str, value: float, *label_values: str) -> None:
        """One line of the current family."""
        self.parts.append(f"{name}{labels_text(self._table[name].labels, label_values)} {number(value)}\n")

    def one(self, name: str, value: float, *label_values: str) -> None:
        """A family of one line."""
        self.family(name)
        self.sample(name, value, *label_values)

    def histogram(self, name: str, snapshot: Snapshot, *label_values: str) -> None:
        """The lines of one histogram of the current family."""
        names = self._table[name].labels
        inner = labels_text(names, label_values)[1:-1]
        comma = "," if inner else ""
        braces = f"{{{inner}}}" if inner else ""
        lines = [
            f'{name}_bucket{{{inner}{comma}le="{bound}"}} {count}\n'
            for bound, count in zip(_BOUNDS, snapshot.cumulative(), strict=True)
        ]
        lines.append(f'{name}_bucket{{{inner}{comma}le="+Inf"}} {snapshot.count}\n')
        lines.append(f"{name}_sum{braces} {number(snapshot.sum_ns / 1e9)}\n")
        lines.append(f"{name}_count{braces} {snapshot.count}\n")
        self.parts.append("".join(lines))

    def encode(self) -> bytes:
        """The whole page."""
        return b"".join(part if isinstance(part, bytes) else part.encode() for part in self.parts)


def number(value: float) -> str:
    """An integer exactly; any other number with up to 17 digits."""
    return str(value) if isinstance(value, int) else repr(float(value))
