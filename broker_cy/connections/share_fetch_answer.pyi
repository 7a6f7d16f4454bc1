from broker_cy.storage.log_slice import LogSlice

Endpoint = tuple[str, int, str | None]

class ShareFetchAnswer:
    """The answer of one ShareFetch request, before it is encoded."""

    error_code: int
    error_message: str | None
    throttle_time_ms: int
    lock_ms: int
    topics: list[tuple[bytes, list[SharePartitionAnswer]]]
    leaders: dict[int, Endpoint]
    from_disk: bool
    def __init__(
        self,
        error_code: int = ...,
        error_message: str | None = ...,
        lock_ms: int = ...,
        topics: list[tuple[bytes, list[SharePartitionAnswer]]] | None = ...,
        leaders: dict[int, Endpoint] | None = ...,
        throttle_time_ms: int = ...,
        from_disk: bool = ...,
    ) -> None: ...

class SharePartitionAnswer:
    index: int
    error_code: int
    error_message: str | None
    acknowledge_error_code: int
    acknowledge_error_message: str | None
    leader_id: int
    leader_epoch: int
    parts: list[LogSlice]
    acquired: list[tuple[int, int, int]]
    def __init__(
        self,
        index: int,
        error_code: int = ...,
        error_message: str | None = ...,
        parts: list[LogSlice] | None = ...,
        acquired: list[tuple[int, int, int]] | None = ...,
    ) -> None: ...
