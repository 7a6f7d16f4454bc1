from typing import Any

from broker_streams.kernel.forward import Node

class Filter(Node):
    """As the other processors of this module, made by its step, and registered when it is imported."""

    def __init__(self, step: Any) -> None: ...
