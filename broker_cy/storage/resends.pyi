from broker_cy.storage.producer_state import ProducerState
from broker_cy.storage.segment import Segment

def refill_producers(segments: list[Segment], producers: ProducerState) -> None: ...
