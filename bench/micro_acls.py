"""Figures of authorisation alone, on one core: loading of ACLs, their memory, and decisions.

    python -m bench.micro_acls [number of ACLs]

The records are read as from a snapshot. Times are CPU time, those of decisions the best of several rounds.
"""

import gc
import sys
import time
import tracemalloc
from functools import partial
from uuid import UUID

from bench.micro_batch import best_s
from broker_cy.metadata.image import MetadataImage
from broker_cy.metadata.replay import replay
from broker_cy.security.acls import Operation, PatternType, Permission, ResourceType
from broker_cy.security.authorizer import Authorizer
from broker_cy.wire import codec, messages

COUNT = 100_000
PRINCIPALS = 2_000
# Of a hundred ACLs, those on a prefix.
PREFIXED = 20


def encoded(count: int) -> list[bytes]:
    """Return ACLs of many principals on many topics, a part of them on prefixes of twenty lengths."""
    found = []
    for place in range(count):
        prefixed = place % 100 < PREFIXED
        name = f"team-{place % 997}." + "x" * (place % 20) if prefixed else f"team-{place % 997}.topic-{place}"
        record = messages.AccessControlEntryRecord(
            id=UUID(int=place + 1),
            resource_type=ResourceType.TOPIC,
            resource_name=name,
            pattern_type=PatternType.PREFIXED if prefixed else PatternType.LITERAL,
            principal=f"User:service-{place % PRINCIPALS}",
            host="*",
            operation=Operation.READ if place % 2 else Operation.WRITE,
            permission_type=Permission.ALLOW,
        )
        found.append(codec.encode(record, 0))
    return found


def load_figures(count: int) -> Authorizer:
    data = encoded(count)
    gc.collect()
    tracemalloc.start()
    image = MetadataImage()
    for each in data:
        replay(image, codec.decode(messages.AccessControlEntryRecord, 0, each))
    of_image = tracemalloc.get_traced_memory()[0]
    authorizer = Authorizer()
    authorizer.replace(image.acls())
    of_both = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    print(f"memory {count} ACLs: records {of_image / 1e6:.1f} MB, index {(of_both - of_image) / 1e6:.1f} MB")
    started = time.process_time()
    for each in data:
        replay(image, codec.decode(messages.AccessControlEntryRecord, 0, each))
    read = time.process_time()
    authorizer.replace(image.acls())
    print(f"load: records {read - started:.2f} s, index {time.process_time() - read:.2f} s")
    return authorizer


def decision_figures(authorizer: Authorizer) -> None:
    who, host, topic = "User:service-777", "192.0.2.1", "team-777.topic-777"
    kept = best_s(partial(authorizer.allows, who, host, Operation.WRITE, ResourceType.TOPIC, topic))
    new = best_s(partial(authorizer._mask, who, host, ResourceType.TOPIC, topic))
    print(f"decision: kept {kept * 1e9:.0f} ns, new {new * 1e6:.2f} us")


if __name__ == "__main__":
    decision_figures(load_figures(int(sys.argv[1]) if len(sys.argv) > 1 else COUNT))
