from collections.abc import Callable

from broker_streams.kernel.collector import Collector
from broker_streams.kernel.failures import Failures
from broker_streams.kernel.forward import Node
from broker_streams.serdes import Serde

class Counts:
    """The numbers of partitions of topics, as `known` returns them; None: nothing is known.

    A sink asks once, and again after `look_again`.
    """

    def __init__(self, known: Callable[[str], int] | None) -> None: ...
    def look_again(self) -> None: ...
    def __call__(self, topic: str) -> int:
        """Raises StreamsError: nothing tells how many partitions the topic has."""

class Placing:
    """Kafka's default partitioner, called as (topic, key); None: the producer chooses, by the same rule.

    The last `suffix_bytes` of a key do not count: all windows of a key are in one partition
    (WindowedStreamPartitioner). The producer does not know that, so such a call raises StreamsError without a count.
    """

    def __init__(self, counts: Counts, suffix_bytes: int) -> None: ...
    def __call__(self, topic: str, key: bytes) -> int | None: ...

class TopicSink(Node):
    """Writes to one topic. Partitions are those of Kafka's default partitioner."""

    def __init__(
        self,
        node: str,
        topic: str,
        key_serde: Serde,
        value_serde: Serde,
        collector: Collector,
        failures: Failures,
        suffix_bytes: int,
    ) -> None: ...
