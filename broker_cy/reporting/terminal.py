"""Tables of rows on the output of a command."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import Final, TypeVar

from broker_cy.reporting.column import Column

# Wider than any table, so that lines for a pipe or a file are not wrapped.
_UNFOLDED_WIDTH: Final = 10_000

R = TypeVar("R")


def print_rows(columns: Sequence[Column[R]], rows: Iterable[R], *, err: bool = False) -> None:
    """Print a table of rows. Cells are wrapped to the terminal, and never truncated."""
    # Imported here, because commands that print no table do not need rich.
    from rich.console import Console

    from broker_cy.reporting.rich_tables import plain_table

    stream = sys.stderr if err else sys.stdout
    console = Console(file=stream, width=None if stream.isatty() else _UNFOLDED_WIDTH, highlight=False)
    with console.capture() as captured:
        console.print(plain_table(columns, rows))
    for line in captured.get().splitlines():
        print(line.rstrip(), file=stream)
