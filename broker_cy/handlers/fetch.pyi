from broker_cy.connections.answers import ServerCore
from broker_cy.core.randomness import Randomness

def install(
    server: ServerCore, slots: int, eviction_ms: int, randomness: Randomness, *, selects_replicas: bool = False
) -> None: ...
