class Outbox:
    """The socket side of a connection."""

    fd: int
    closed: bool
    queue: list[object]
    last_active_ms: int
    bytes_out: int

    def on_writable(self) -> None: ...
    def broken(self, error: BaseException) -> None: ...
    def close(self) -> int: ...
