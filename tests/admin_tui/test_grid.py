"""The table: many rows, narrow screens, wide characters."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from rich.text import Text
from textual.app import App, ComposeResult
from textual.pilot import Pilot
from textual.strip import Strip

from admin_tui.widgets.chart import Chart
from admin_tui.widgets.columns import Column
from admin_tui.widgets.edges import set_edge
from admin_tui.widgets.grid import Grid


class _App(App[None]):
    def __init__(self, grid: Grid[int]) -> None:
        super().__init__()
        self.grid = grid

    def compose(self) -> ComposeResult:
        yield self.grid


def run(grid: Grid[Any], job: Callable[[Pilot[None]], Awaitable[None]], width: int = 40) -> None:
    async def inside() -> None:
        async with _App(grid).run_test(size=(width, 12)) as pilot:
            grid.focus()
            await pilot.pause()
            await job(pilot)

    asyncio.run(inside())


def lines(grid: Grid[Any]) -> list[str]:
    return ["".join(part.text for part in grid.render_line(y)) for y in range(grid.scrollable_content_region.height)]


def new_grid(drawn: list[int] | None = None) -> Grid[int]:
    def cell(row: int) -> str:
        if drawn is not None:
            drawn.append(row)
        return f"row {row}"

    return Grid(
        [
            Column("Name", cell, 10, lambda row: row, flex=True, letter="A"),
            Column("Square", lambda row: str(row * row), 8, lambda row: row * row, "right", letter="S", drop=1),
            Column("Wide", lambda row: "東京" * 5, 9, drop=2),
        ],
        key=lambda row: row,
        text=lambda row: f"row {row}",
    )


def test_only_what_is_on_the_screen_is_drawn() -> None:
    """If this fails, a table of ten thousand rows delays the keyboard."""
    drawn: list[int] = []
    grid = new_grid(drawn)

    async def job(pilot: Pilot[None]) -> None:
        drawn.clear()
        grid.set_rows(range(10_000))
        await pilot.pause()
        assert 0 < len(set(drawn)) <= 12
        drawn.clear()
        await pilot.press("j")
        await pilot.pause()
        # The row that the cursor left, and the one that it is on now.
        assert set(drawn) <= {0, 1}
        await pilot.press("G")
        await pilot.pause()
        assert grid.selected == 9_999
        assert "row 9999" in lines(grid)[-1]
        drawn.clear()
        grid.set_rows(range(5_000, 15_000))
        await pilot.pause()
        assert grid.selected == 9_999
        assert len(set(drawn)) <= 24

    run(grid, job)


def test_columns_go_where_it_is_narrow_and_wide_characters_keep_the_width() -> None:
    """If this fails, a line is longer than the screen, and everything below it is shifted."""
    grid = new_grid()

    async def job(pilot: Pilot[None]) -> None:
        grid.set_rows(range(3))
        await pilot.pause()
        from rich.cells import cell_len

        for line in lines(grid):
            assert cell_len(line) == grid.scrollable_content_region.width
        assert "Wide" in lines(grid)[0]
        await pilot.resize_terminal(26, 12)
        await pilot.pause()
        assert "Wide" not in lines(grid)[0]
        assert "Square" in lines(grid)[0]
        await pilot.resize_terminal(16, 12)
        await pilot.pause()
        assert "Square" not in lines(grid)[0]
        assert "row 0" in lines(grid)[1]

    run(grid, job)


def test_sorting_by_letter_and_back() -> None:
    """If this fails, rows cannot be ordered without a mouse."""
    grid = new_grid()

    async def job(pilot: Pilot[None]) -> None:
        grid.set_rows([-3, 1, 2])
        await pilot.press("S")
        assert grid.view == [-3, 2, 1]
        await pilot.press("S")
        assert grid.view == [1, 2, -3]
        await pilot.press("A")
        assert grid.view == [-3, 1, 2]

    run(grid, job)


def test_a_chart_never_hides_a_value_nor_overflows() -> None:
    """If this fails, a peak of one second is not visible, or a low rate looks like zero."""
    columns, share = Chart.columns_of([0.0] * 99 + [5.0], 10)
    assert share == 10
    assert columns == [0.0] * 9 + [5.0]
    columns, share = Chart.columns_of([None, 1.0, None], 10)
    assert (columns, share) == ([None, 1.0, None], 1)
    assert Chart.columns_of([], 10) == ([], 1)


def test_a_column_of_a_chart_is_at_its_time_on_the_axis() -> None:
    """If this fails, a short history appears to begin with an outage, or a peak is read at a wrong time."""

    class Shown(App[None]):
        def compose(self) -> ComposeResult:
            yield Chart("In", str)

    async def inside() -> tuple[str, str]:
        # The border takes two columns and the labels ten, so that 28 are left for values.
        async with Shown().run_test(size=(40, 12)) as pilot:
            chart = pilot.app.query_one(Chart)
            chart.set_values([1.0] * 61, interval_ms=1_000)
            await pilot.pause()
            bars, foot = ("".join(part.text for part in chart.render_line(chart.size.height - up)) for up in (2, 1))
            return bars[10:], foot[10:]

    bars, foot = asyncio.run(inside())
    # 61 values of a second in columns of three: the oldest is 21 columns from the right, and the edge is at 28 * 3 s.
    assert bars == " " * 7 + "█" * 21
    assert foot == "-1 m 24 s" + " " * 16 + "now"


class Drawing(Grid[tuple[int, str]]):
    """Counts the lines that are drawn."""

    def __init__(self) -> None:
        columns: list[Column[tuple[int, str]]] = [
            Column("Name", lambda row: str(row[0]), 10),
            Column("Value", lambda row: row[1], 10),
        ]
        super().__init__(columns, key=lambda row: row[0], title="Rows", can_mark=True)
        self.lines_drawn: list[int] = []

    def render_line(self, y: int) -> Strip:
        self.lines_drawn.append(y)
        return super().render_line(y)


def test_a_refresh_draws_only_what_changed() -> None:
    """If this fails, each response of the broker redraws all cells of the table, which delays the keyboard."""
    grid = Drawing()

    async def job(pilot: Pilot[None]) -> None:
        def rows(*changed: int) -> list[tuple[int, str]]:
            return [(number, "new" if number in changed else "old") for number in range(1_000)]

        async def drawn(change: Callable[[], None]) -> set[int]:
            grid.lines_drawn.clear()
            change()
            await pilot.pause()
            return set(grid.lines_drawn)

        # The second time for the scroll bar, which takes a column.
        for _ in range(2):
            grid.set_rows(rows())
            await pilot.pause()
        assert await drawn(lambda: grid.set_rows(rows())) == set()
        # The header is line 0; row 3 is in line 4. Row 500 is not on the screen.
        assert await drawn(lambda: grid.set_rows(rows(3, 500))) == {4}
        assert "new" in lines(grid)[4]
        assert await drawn(lambda: set_edge(grid, "subtitle", Text("5 s ago"))) == set()
        assert await drawn(lambda: grid.set_rows(rows(3, 500))) == set()
        # The same lines show other rows than before.
        assert len(await drawn(lambda: grid.set_rows([(1_000 + number, "old") for number in range(1_000)]))) >= 9
        assert "1000" in lines(grid)[1]
        assert await drawn(lambda: grid.set_rows([])) >= {1, 2, 3}
        assert not lines(grid)[1].strip()

    run(grid, job)


def test_the_text_in_a_border_is_shown() -> None:
    """If this fails, the age of a list does not change, or remains when the list is current again."""
    grid = Drawing()

    async def job(pilot: Pilot[None]) -> None:
        grid.set_rows([(1, "one")])
        for text in ("5 s ago", "now", ""):
            set_edge(grid, "subtitle", Text(text))
            await pilot.pause()
            shown = ["".join(part.text for part in strip) for strip in pilot.app.screen._compositor.render_strips()]
            assert shown[0].startswith("╭─ Rows · 1 ")
            assert text in shown[-1]
            assert set(shown[-1]) - set("╰─╯ ") == set(text.replace(" ", ""))

    run(grid, job)
