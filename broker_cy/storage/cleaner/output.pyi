class CleanedOutput:
    written: int
    max_timestamp: int
    max_timestamp_offset: int
    next_offset: int
    def finish(self) -> tuple[bytes, bytes]: ...
