"""Kafka's text form of a UUID: URL-safe base64 of the 16 bytes without padding, 22 characters."""

import base64
import re
from typing import Final
from uuid import UUID

ZERO: Final = UUID(int=0)
"""Stands for "no id" in every message."""
METADATA_TOPIC_ID: Final = UUID(int=1)
"""The id of `__cluster_metadata`."""
LOST_DIRECTORY: Final = UUID(int=2)
"""KIP-858: the replica is in a log directory that is offline."""
UNASSIGNED_DIRECTORY: Final = UUID(int=1)
"""KIP-858: the broker has not reported yet which log directory holds the replica."""
MIGRATING_DIRECTORY: Final = ZERO
"""KIP-858: the replica comes from a cluster that did not track directories."""
RESERVED_MAX: Final = 99
"""Ids 0 to 99 are reserved; Kafka gives none of them out."""

_TEXT: Final = re.compile(r"[A-Za-z0-9_-]{22}")


def to_text(value: UUID) -> str:
    """The 22 characters Kafka prints for `value`, such as `4xr5BVvfQSSGXqgDyA3RIg`."""
    return base64.urlsafe_b64encode(value.bytes).rstrip(b"=").decode("ascii")


def from_text(text: str) -> UUID:
    """The UUID that Kafka prints as `text`. Raises ValueError if it is not 22 characters of URL-safe base64."""
    if _TEXT.fullmatch(text) is None:
        raise ValueError(f"not a Kafka uuid: {text!r} (22 characters of URL-safe base64 are expected)")
    return UUID(bytes=base64.urlsafe_b64decode(text + "=="))


def is_reserved(value: UUID) -> bool:
    """Return whether Kafka never uses `value` as an id."""
    return value.int <= RESERVED_MAX


def usable(value: UUID) -> bool:
    """Whether `value`, drawn at random, may become an id: not reserved, and its text does not start with a dash.

    A leading dash would be read as an option by Kafka's command line tools.
    """
    return not is_reserved(value) and not to_text(value).startswith("-")
