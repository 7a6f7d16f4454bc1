"""Comparison of counts with the recorded ones: verdicts, the table, and the file of recorded counts."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

TOLERANCE = 0.03
# Of `make test`, which also runs beside other programs: then timers and the pieces of a response add up to 12 % to a
# request (a fetch of 1 MB beside three busy processes on two cores).
TOLERANCE_ON_ANY_MACHINE = 0.15
FORMAT = 1
SAME, BETTER, WORSE, UNKNOWN = "same", "better", "WORSE", "not recorded"


class ExpectedError(Exception):
    """The file of recorded counts cannot be used; the text says why."""


@dataclass(frozen=True)
class Expected:
    """Recorded instructions per request by operation, and the versions they were counted with."""

    versions: dict[str, str]
    operations: dict[str, int]


@dataclass(frozen=True)
class Row:
    """One operation: instructions per request, as recorded (None: not recorded) and now."""

    operation: str
    expected: int | None
    now: int
    tolerance: float = TOLERANCE

    @property
    def change(self) -> float:
        """Relative change from the recorded count: 0.05 is 5 % more; 0 if none is recorded."""
        return self.now / self.expected - 1 if self.expected else 0.0

    @property
    def verdict(self) -> str:
        if self.expected is None:
            return UNKNOWN
        # Compares instructions, not ratios: rounding must not turn a change of exactly the tolerance into one above it.
        allowed = self.tolerance * self.expected
        if self.now - self.expected > allowed:
            return WORSE
        return BETTER if self.expected - self.now > allowed else SAME


def load(path: Path) -> Expected | None:
    """Return the recorded counts, or None if there is no such file. Raises ExpectedError."""
    try:
        found = json.loads(path.read_text())
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise ExpectedError(f"{path}: not JSON: {error}") from None
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise ExpectedError(f"{path}: a JSON object with format {FORMAT} is expected")
    texts, counts = found.get("versions"), found.get("operations")
    if not isinstance(texts, dict) or not all(isinstance(text, str) for text in texts.values()):
        raise ExpectedError(f"{path}: versions: an object of strings is expected")
    if not isinstance(counts, dict) or not all(type(count) is int and count > 0 for count in counts.values()):
        raise ExpectedError(f"{path}: operations: an object of instruction counts above 0 is expected")
    return Expected(texts, counts)


def save(path: Path, expected: Expected) -> None:
    """Record counts."""
    path.write_text(json.dumps({"format": FORMAT, **asdict(expected)}, indent=2) + "\n")


def rows(expected: Mapping[str, int], now: Mapping[str, int], tolerance: float = TOLERANCE) -> list[Row]:
    """Return one row for each counted operation."""
    return [Row(operation, expected.get(operation), count, tolerance) for operation, count in now.items()]


def table(lines: list[Row]) -> str:
    """Format the rows as text."""
    cells = [("operation", "expected", "now", "change", "verdict")]
    for row in lines:
        known = row.expected is not None
        cells.append(
            (
                row.operation,
                f"{row.expected:,}" if known else "-",
                f"{row.now:,}",
                f"{100 * row.change:+.1f}%" if known else "-",
                row.verdict,
            )
        )
    return columns(cells, "lrrrl")


def columns(cells: Sequence[tuple[str, ...]], sides: str) -> str:
    """Format cells as text, each column as wide as its widest cell; `sides` has the alignment of each, l or r."""
    widths = [max(len(line[column]) for line in cells) for column in range(len(sides))]
    out = []
    for line in cells:
        parts = [
            cell.ljust(width) if side == "l" else cell.rjust(width)
            for cell, width, side in zip(line, widths, sides, strict=True)
        ]
        out.append("  ".join(parts).rstrip())
    return "\n".join(out)
