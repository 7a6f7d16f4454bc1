from broker_cy.quotas.rate import PacedRate

class Account:
    principal: str
    client_id: bytes
    generation: int
    produce: PacedRate | None
    fetch: PacedRate | None
    time: PacedRate | None

    def __init__(
        self,
        principal: str,
        client_id: bytes,
        generation: int,
        produce: PacedRate | None,
        fetch: PacedRate | None,
        time: PacedRate | None,
    ) -> None: ...
