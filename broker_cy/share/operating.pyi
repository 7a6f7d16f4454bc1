from broker_cy.share.share_partition import SharePartition
from broker_cy.share.state_write import StateWrite

def operate(
    partition: SharePartition, action: int, member_id: str | None, ranges: list[tuple[int, int]], is_preview: bool
) -> tuple[StateWrite | None, int, int]: ...
