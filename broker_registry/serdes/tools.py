"""The registry of a cluster, for the tools: the one place where they get a client and a decoder.

A tool without a registry loads nothing of it: the imports are in the functions.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

from broker_cy.client.clusters import ClusterEntry
from broker_cy.client.errors import ClientError, Failure

if TYPE_CHECKING:
    from broker_registry.client import RegistryClient
    from broker_registry.serdes.encoder import Encoders
    from broker_registry.serdes.records import RecordDecoder

LIBRARIES: Final = ("fastavro", "h11", "jsonschema_rs", "orjson", "google.protobuf")
"""Libraries of the extra `registry` that clients of a registry need."""
CONSOLE_WAIT_S: Final = 3.0
"""How long a page waits for schemas before it shows bytes."""
CONSOLE_DECODE_BYTES_MAX: Final = 1 << 20
"""Larger values are shown as bytes: decoding them would block the page. As JSON_BYTES_MAX of the consoles."""


def client_of(entry: ClusterEntry) -> RegistryClient | None:
    """Return the client of the registry of a cluster; None if it has none. Raises ClientError."""
    if not entry.has_registry:
        return None
    missing = [name for name in LIBRARIES if not _is_installed(name)]
    if missing:
        reason = f"the extra registry is needed: pip install 'broker-cy[registry]' (missing: {', '.join(missing)})"
        raise ClientError(Failure.INVALID, reason, what="the registry")
    from broker_registry.client import RegistryClient
    from broker_registry.client_settings import settings_of

    return RegistryClient(settings_of(entry.registry, entry.registry_config, entry.timeout_s))


def decoder_of(entry: ClusterEntry, *, keys: bool = True, values: bool = True) -> RecordDecoder | None:
    """Return the decoder of a command for the registry of a cluster; None if it has none. Raises ClientError."""
    client = client_of(entry)
    if client is None:
        return None
    from broker_registry.serdes.records import RecordDecoder

    return RecordDecoder(client, keys=keys, values=values)


def console_decoder_of(entry: ClusterEntry) -> RecordDecoder | None:
    """The same for a console, whose pages show something else if the registry does not answer soon."""
    client = client_of(entry)
    if client is None:
        return None
    from broker_registry.serdes.records import RecordDecoder

    return RecordDecoder(client, wait_s=CONSOLE_WAIT_S, bytes_max=CONSOLE_DECODE_BYTES_MAX)


def encoders_of(entry: ClusterEntry) -> Encoders | None:
    """Return what encodes by the registry of a cluster; None if it has none. Raises ClientError."""
    client = client_of(entry)
    if client is None:
        return None
    from broker_registry.serdes.encoder import Encoders

    return Encoders(client)


def _is_installed(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ModuleNotFoundError:
        return False
