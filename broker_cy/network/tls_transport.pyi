import asyncio
from collections.abc import Callable

from broker_cy.core.openssl import TlsSession
from broker_cy.network.transport import Transport

class TlsTransport(Transport):
    session: TlsSession
    def __init__(self, loop: asyncio.AbstractEventLoop, session: TlsSession, fd: int) -> None: ...
    def attach(self, on_input: Callable[[], None]) -> None: ...
