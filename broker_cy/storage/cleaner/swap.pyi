from collections.abc import Mapping

from broker_cy.storage.cleaner.files import DirectoryFiles
from broker_cy.storage.cleaner.job import CleaningPlan, Replacement
from broker_cy.storage.log import Log

def segment_sizes(log: Log) -> list[tuple[int, int]]: ...
def largest_timestamp(log: Log, number: int) -> int: ...
def first_timestamp(log: Log, number: int) -> int: ...
def plan(
    log: Log,
    first_dirty_offset: int,
    first_uncleanable_offset: int,
    now_ms: int,
    *,
    map_bytes: int,
    load_factor: float,
    buffer_bytes: int,
) -> CleaningPlan: ...
def install(log: Log, files: DirectoryFiles, replacement: Replacement) -> list[str]: ...
