"""Every message, header and record type of the protocol as a class, by Kafka's name: `messages.MetadataRequest`.

A class is made from its table when it is first accessed, so importing this module costs nothing. The structures inside
a message are its attributes (`messages.MetadataResponse.MetadataResponseTopic`). The generated `messages.pyi` has the
types.
"""

from broker_cy.schemas import tables
from broker_cy.wire.codec import Message, make_class


def __getattr__(name: str) -> type[Message]:
    if name not in tables.message_files():
        raise AttributeError(f"the protocol has no message called {name}")
    cls = make_class(tables.load(name), __name__)
    globals()[name] = cls
    return cls


def __dir__() -> list[str]:
    return sorted(tables.message_files())
