from typing import Any

from broker_streams.kernel.forward import Node

class WindowFold(Node):
    """`rest` is a WindowAggregate."""

    def __init__(self, rest: Any) -> None: ...
