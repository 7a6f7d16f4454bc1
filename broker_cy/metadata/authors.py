"""The requesters of changes of ACLs, SCRAM credentials, quotas and delegation tokens. Only events use them.

The broker that writes the event need not be the node that carried out the change, so the records name the requester.
Kafka's records do not, so it is a tagged field outside Kafka's specification, as in metadata.fence_reasons: nodes of
Apache Kafka skip it, and its controllers never write it. Images and snapshots do not keep it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Final

from broker_cy.core.classes import NamedTuple

# The tagged field of AccessControlEntryRecord, UserScramCredentialRecord, DelegationTokenRecord and the records that
# remove them, and of ClientQuotaRecord.
TAG: Final = 10_001
# The limit of each text; a longer one is cut.
CHARACTERS_MAX: Final = 250

Tags = tuple[tuple[int, bytes], ...]


class Author(NamedTuple):
    """A client, as events name it; an empty text is unknown."""

    client_id: str = ""
    host: str = ""
    principal: str = ""


NOBODY: Final = Author()
# The author of changes that no client requested.
CLUSTER: Final = Author(principal="broker")


def tag_of(author: Author) -> Tags:
    if author == NOBODY:
        return ()
    return ((TAG, json.dumps([text[:CHARACTERS_MAX] for text in author]).encode()),)


def data_of(tags: Iterable[tuple[int, bytes]]) -> bytes:
    """The contents of the field, empty without it."""
    return dict(tags).get(TAG, b"")


def read(data: bytes) -> Author:
    """The author in a result of `data_of`; NOBODY if it is empty or not understood."""
    try:
        texts = json.loads(data) if data else []
    except ValueError:
        return NOBODY
    if not isinstance(texts, list) or len(texts) != len(NOBODY) or not all(isinstance(text, str) for text in texts):
        return NOBODY
    return Author(*(text[:CHARACTERS_MAX] for text in texts))
