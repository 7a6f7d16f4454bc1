from collections.abc import Callable, Iterable

from broker_cy.storage.log import Log

def truncate_to(log: Log, offset: int, now_ms: int, remove: Callable[[str, int], None] | None = None) -> bool: ...
def restart_at(log: Log, offset: int, now_ms: int, remove: Callable[[str, int], None] | None = None) -> None: ...
def reload_producers(
    log: Log,
    now_ms: int,
    expiration_ms: int,
    snapshot_offsets: Iterable[int] | None = None,
    noted_offset: int = 0,
    synced_offset: int = ...,
    sync: bool = ...,
) -> None: ...
