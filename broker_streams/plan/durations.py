"""Durations as users give them to the DSL."""

from __future__ import annotations

from broker_cy.client.quantities import parse_duration


def milliseconds(duration: int | str, what: str) -> int:
    """A duration in ms: an int, or a text such as "500ms", "1m" or "1h30m" (broker_cy/client/quantities.py).

    Raises ValueError: the text is no duration, TypeError: it is neither; both name `what`.
    """
    if isinstance(duration, bool) or not isinstance(duration, int | str):
        raise TypeError(f'{what} is {duration!r}; ms as int or a text such as "1m" is allowed')
    if isinstance(duration, int):
        return duration
    try:
        return parse_duration(duration)
    except ValueError as error:
        raise ValueError(f"{what}: {error}") from None
