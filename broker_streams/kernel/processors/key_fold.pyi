from typing import Any

from broker_streams.kernel.forward import Node

class KeyFold(Node):
    """`rest` is an Aggregate."""

    def __init__(self, rest: Any) -> None: ...
