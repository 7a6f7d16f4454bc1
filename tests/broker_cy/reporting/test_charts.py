"""Charts of reports."""

from __future__ import annotations

from broker_cy.reporting import charts


def test_long_series_are_thinned_without_losing_a_peak() -> None:
    """If this fails, a day of samples hides the one second in which a request took 5 s, or slows the browser down."""
    values: list[float | None] = [1.0] * 345_600
    values[100_000], values[7] = 5000.0, None
    times, shown = charts.thinned([n / 4 for n in range(345_600)], values, charts.highest)
    assert len(times) == len(shown) <= charts.POINTS_MAX
    assert max(value for value in shown if value is not None) == 5000
    assert times[-1] == 345_599 / 4
    assert charts.thinned([1.0, 2.0], [1.0, None], charts.mean) == ([1.0, 2.0], [1.0, None])
