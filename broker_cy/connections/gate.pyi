from collections.abc import Callable, Mapping

from broker_cy.broker.registry import Registration

class Gate:
    """Decides of each request, before anything but its header is read, whether it reaches its handler."""

    rule: Callable[[str, str, int, int], str | None] | None
    refusal: str | None

    def __init__(self, registry: Mapping[int, Registration]) -> None: ...
