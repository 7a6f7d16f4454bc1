from broker_cy.connections.connection import Connection

class Activity:
    """One look at all connections, which may be taken in parts. It keeps the `limit` busiest ones."""

    count: int
    newest_ms: int

    def __init__(self, limit: int) -> None: ...
    def look(self, connections: list[Connection], start: int, end: int) -> None: ...
    def busiest(self) -> list[tuple[Connection, int, int, int]]: ...
