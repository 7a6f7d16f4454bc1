from broker_cy.quotas.rate import Rate

class Account:
    principal: str
    client_id: bytes
    generation: int
    produce: Rate | None
    fetch: Rate | None
    time: Rate | None

    def __init__(
        self,
        principal: str,
        client_id: bytes,
        generation: int,
        produce: Rate | None,
        fetch: Rate | None,
        time: Rate | None,
    ) -> None: ...
