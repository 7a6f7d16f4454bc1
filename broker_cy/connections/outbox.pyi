class Outbox:
    """The sending side of a connection's transport."""

    closed: bool
    queue: list[object]
    last_active_ms: int
    bytes_out: int

    def on_writable(self) -> None: ...
    def broken(self, error: BaseException) -> None: ...
    def close(self) -> int: ...
