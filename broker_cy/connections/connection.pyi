from typing import Any

from broker_cy.connections.answers import ServerCore
from broker_cy.connections.login import Logins
from broker_cy.network.transport import Transport

class Connection:
    """One client connection, which owns its transport."""

    listener: str
    principal: str
    rights: Any
    client_host: str
    client_port: int
    connection_id: str
    closed: bool
    logging_in: bool
    is_muted: bool
    pending: int
    queue: list[object]
    last_active_ms: int
    opened_ms: int
    requests: int
    bytes_in: int
    bytes_out: int
    client_id: bytes

    def __init__(
        self,
        server: ServerCore,
        transport: Transport,
        listener: str,
        client_host: str,
        client_port: int,
        local: str,
        logins: Logins | None = ...,
    ) -> None: ...
    def begin_login(self, frame_bytes_max: int) -> None: ...
    def answer_login(self, key: int, payload: bytes) -> None: ...
    def identify(self, principal: str) -> None: ...
    def admit(self, principal: str, by_token: bool = ...) -> None: ...
    def expire(self) -> None: ...
    def pause_login(self) -> None: ...
    def resume_login(self) -> None: ...
    def end_refused(self, key: int, payload: bytes) -> None: ...
    def on_readable(self) -> None: ...
    def close(self) -> int: ...
    def stop(self) -> None: ...
