from broker_cy.core.randomness import Randomness
from broker_cy.server.connections.answers import ServerCore

def install(
    server: ServerCore, slots: int, eviction_ms: int, randomness: Randomness, *, selects_replicas: bool = False
) -> None: ...
