"""Figures of authorisation alone, on one core: loading of ACLs, their memory, and decisions.

The records are read as from a snapshot. Times are CPU time, those of decisions the best of several rounds.
"""

import gc
import time
import tracemalloc
from functools import partial
from uuid import UUID

from bench.studies.goals import Figures
from bench.studies.micro_batch import best_s
from broker_cy.metadata.image import MetadataImage
from broker_cy.metadata.replay import replay
from broker_cy.security.acls import Operation, PatternType, Permission, ResourceType
from broker_cy.security.authorizer import Authorizer
from broker_cy.wire import codec, messages

PRINCIPALS = 2_000
# The number of prefix ACLs in a hundred.
PREFIXED = 20


def encoded(count: int) -> list[bytes]:
    """Return ACLs of many principals on many topics, a part of them on prefixes with twenty lengths."""
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


def load_figures(count: int) -> tuple[Authorizer, Figures]:
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
    started = time.process_time()
    for each in data:
        replay(image, codec.decode(messages.AccessControlEntryRecord, 0, each))
    read = time.process_time()
    authorizer.replace(image.acls())
    return authorizer, {
        "acl_records_s": read - started,
        "acl_index_s": time.process_time() - read,
        "acl_records_mb": of_image / 1e6,
        "acl_index_mb": (of_both - of_image) / 1e6,
    }


def decision_figures(authorizer: Authorizer) -> Figures:
    who, host, topic = "User:service-777", "192.0.2.1", "team-777.topic-777"
    kept = best_s(partial(authorizer.allows, who, host, Operation.WRITE, ResourceType.TOPIC, topic))
    new = best_s(partial(authorizer._mask, who, host, ResourceType.TOPIC, topic))
    return {"acl_decision_kept_ns": kept * 1e9, "acl_decision_new_us": new * 1e6}


def acl_figures(count: int) -> Figures:
    """Return the figures of this many ACLs."""
    authorizer, loaded = load_figures(count)
    return {**loaded, **decision_figures(authorizer)}
