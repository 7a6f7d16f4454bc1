from typing import TypedDict

class FetchFields(TypedDict):
    """`topics`: (name or id, [(index, current leader epoch, fetch offset, last fetched epoch, log start offset, max bytes)]);
    `forgotten`: (name or id, [index]).
    """

    replica_id: int
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    isolation_level: int
    session_id: int
    session_epoch: int
    topics: list[tuple[bytes, list[tuple[int, int, int, int, int, int]]]]
    forgotten: list[tuple[bytes, list[int]]]

def parse_fetch(body: bytes, version: int) -> FetchFields: ...
