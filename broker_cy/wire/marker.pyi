def encode_marker(
    producer_id: int,
    producer_epoch: int,
    coordinator_epoch: int,
    commit: bool,
    timestamp_ms: int,
    log_append_time: bool = False,
) -> bytes: ...
