from broker_cy.share.read_batches import ReadBatches
from broker_cy.share.share_partition import SharePartition

def acquire(
    partition: SharePartition,
    member_id: str,
    is_record_limit: bool,
    batch_size: int,
    max_records: int,
    fetch_offset: int,
    read: ReadBatches,
    now_ms: int,
) -> list[tuple[int, int, int]]: ...
