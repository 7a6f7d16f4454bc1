from broker_cy.replica.partition import Partition

FAMILIES: tuple[tuple[str, int], ...]

def lines(name: bytes, family: int, partitions: list[Partition], labels: list[bytes], start: int, end: int) -> bytes: ...
