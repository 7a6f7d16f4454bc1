"""Defects of the check of records, which its simulation must find. Each is planted by replacing one function."""

from __future__ import annotations

import asyncio
from typing import Any

from broker_cy.client.aborted import AbortedTransactions
from broker_cy.record_schemas import entries, follower, known
from broker_cy.record_schemas.checks import RecordSchemas, Verdict
from broker_cy.record_schemas.entries import Part
from broker_cy.record_schemas.follower import Follower
from broker_cy.record_schemas.known import KnownSchemas, SchemaVersion
from tests.sim.defects import Patch, Planter


def requests_are_answered_by_the_round_under_way(patch: Patch) -> None:
    """A round that has read the end already answers a request that comes later."""
    right = Follower.up_to_date

    def up_to_date(self: Follower) -> asyncio.Future[bool]:
        return self._now if self._now is not None else right(self)

    patch.setattr(Follower, "up_to_date", up_to_date)


def unfinished_rounds_count_as_current(patch: Patch) -> None:
    """Without a leader, a schema that is not known yet is refused for good."""
    right = Follower._round

    async def round_(self: Follower) -> bool:
        await right(self)
        return True

    patch.setattr(Follower, "_round", round_)


def unknown_schemas_are_refused_at_once(patch: Patch) -> None:
    """The verdict does not wait for the topic."""
    right = RecordSchemas.judge
    patch.setattr(RecordSchemas, "judge", lambda self, uses, partition: Verdict(right(self, uses, partition)[0], True))


def aborted_records_are_applied(patch: Patch) -> None:
    """A registration that was never confirmed counts."""
    patch.setattr(AbortedTransactions, "hides", lambda self, batch: False)


def softly_deleted_versions_stay(patch: Patch) -> None:
    """The member `deleted` is not read."""
    right = entries._version
    patch.setattr(
        entries, "_version", lambda subject, version, value: right(subject, version, value | {"deleted": False})
    )


def tombstones_delete_nothing(patch: Patch) -> None:
    """Versions that were deleted for good stay."""
    right = entries.entry_of
    patch.setattr(entries, "entry_of", lambda key, value: None if value is None else right(key, value))


def recreated_topics_are_not_noticed(patch: Patch) -> None:
    """The schemas of a deleted topic stay."""

    def begin(self: Follower, topic_id: Any) -> None:
        self._topic_id = topic_id
        self._position = 0

    patch.setattr(Follower, "_begin", begin)


def parts_are_lost_at_the_end_of_a_round(patch: Patch) -> None:
    """The position moves before the part is applied: a round that ends meanwhile skips the part."""
    right = Follower._parsed

    async def parsed(self: Follower, found: Any) -> Part:
        part = await right(self, found)
        self._position = part.next_offset
        await asyncio.sleep(0.2)
        return part

    patch.setattr(Follower, "_parsed", parsed)


def one_version_takes_the_schema_of_another(patch: Patch) -> None:
    """A schema leaves its subject with the first of several versions that have it."""
    right = KnownSchemas._remove

    def remove(self: KnownSchemas, subject: str, version: int) -> None:
        gone = self._versions.get(subject, {}).get(version)
        right(self, subject, version)
        for name in () if gone is None else known._names_of(gone):
            self._names.get(subject, {}).pop(name, None)

    patch.setattr(KnownSchemas, "_remove", remove)


def guids_are_not_known(patch: Patch) -> None:
    """Only ids are kept."""
    patch.setattr(known, "_names_of", lambda version: (version.id,))


def any_subject_will_do(patch: Patch) -> None:
    """The schema may be that of another subject."""

    def has(self: KnownSchemas, subject: str, schema: Any) -> bool:
        return any(schema in names for names in self._names.values())

    patch.setattr(KnownSchemas, "has", has)


def versions_are_added_twice(patch: Patch) -> None:
    """A version that is written again counts twice, and stays after its deletion."""

    def apply(self: KnownSchemas, entry: Any) -> None:
        if isinstance(entry, SchemaVersion):
            self._add(entry)
            self._add(entry)
        else:
            right(self, entry)

    right = KnownSchemas.apply
    patch.setattr(KnownSchemas, "apply", apply)


def rounds_have_no_end(patch: Patch) -> None:
    """A request waits as long as the topic has no leader."""
    patch.setattr(follower, "ROUND_S", 1e6)


DEFECTS: tuple[Planter, ...] = (
    requests_are_answered_by_the_round_under_way,
    unfinished_rounds_count_as_current,
    unknown_schemas_are_refused_at_once,
    aborted_records_are_applied,
    softly_deleted_versions_stay,
    tombstones_delete_nothing,
    recreated_topics_are_not_noticed,
    parts_are_lost_at_the_end_of_a_round,
    one_version_takes_the_schema_of_another,
    guids_are_not_known,
    any_subject_will_do,
    versions_are_added_twice,
    rounds_have_no_end,
)
