from typing import Protocol

class Link(Protocol):
    """The functions that an ObjectTransport calls: those of transport.pxd. Offsets and sizes are in bytes."""

    def recv_into(self, room: memoryview) -> int: ...
    def send(self, data: memoryview, more: bool) -> int: ...
    def send_file(self, fd: int, position: int, size: int) -> int: ...
    def close(self) -> None: ...

class Transport:
    """Bytes to and from one peer."""

    fd: int
    def close_now(self) -> None: ...

class SocketTransport(Transport):
    """A connected, non-blocking socket, which it owns."""

    def __init__(self, fd: int) -> None: ...

class ObjectTransport(Transport):
    """A transport written in Python, which the loop watches under the number `fd`."""

    def __init__(self, link: Link, fd: int) -> None: ...
