"""Deletions: which versions they take, and the calls."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from broker_cy.client.errors import ClientError
from broker_cy.reporting.column import Column, ids_text
from broker_registry.client import RegistryClient
from broker_registry.console import columns


class Deletion(NamedTuple):
    """A version that is to be deleted, and the ids of the schemas that refer to it, which prevent that."""

    version: int
    is_deleted: bool
    referrers: list[int]


COLUMNS: Final[tuple[Column[Deletion], ...]] = (
    columns.VERSION.by(lambda row: row.version),
    columns.STATE.by(lambda row: columns.state_text(row.is_deleted)),
    Column("referrers", "Referred to by ids", lambda row: ids_text(row.referrers)),
)


async def deletions(
    client: RegistryClient, subject: str, wanted: Iterable[int] | None, *, permanent: bool
) -> list[Deletion]:
    """Return the versions that a deletion takes: the `wanted` ones, or all. Raises ClientError if there is none."""
    undeleted: list[int] = []
    try:
        undeleted = await client.versions(subject)
    except ClientError:
        if not permanent:
            raise
    numbers = await client.versions(subject, deleted=True) if permanent else undeleted
    if wanted is not None:
        numbers = sorted(wanted)
        for number in numbers:
            # A version that does not exist gets the error of the registry.
            await client.version(subject, number, deleted=permanent)
    return [Deletion(number, number not in undeleted, await client.referrers(subject, number)) for number in numbers]


async def delete(
    client: RegistryClient, subject: str, rows: Iterable[Deletion], *, permanent: bool, is_whole: bool
) -> None:
    """Delete versions; `is_whole`: the subject with all of them. Raises ClientError."""
    rows = list(rows)
    # A version is deleted for good only after it was deleted.
    if any(not row.is_deleted for row in rows):
        await _delete(client, subject, None if is_whole else [row.version for row in rows if not row.is_deleted], False)
    if permanent:
        await _delete(client, subject, None if is_whole else [row.version for row in rows], True)


async def _delete(client: RegistryClient, subject: str, numbers: list[int] | None, permanent: bool) -> None:
    if numbers is None:
        await client.delete_subject(subject, permanent=permanent)
        return
    for number in numbers:
        await client.delete_version(subject, number, permanent=permanent)
