from typing_extensions import Buffer

from broker_cy.storage.producer_state import ProducerState

SNAPSHOT_VERSION: int

def encode_producers(state: ProducerState, committed: bool) -> bytes: ...
def load_producers(state: ProducerState, data: Buffer, end_offset: int) -> None: ...
