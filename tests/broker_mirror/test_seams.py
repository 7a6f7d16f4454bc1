"""The pure parts of the mirror use nothing of the machine, so that a simulation controls them."""

from __future__ import annotations

from pathlib import Path

from tests.broker_cy.test_seams import uses

MIRROR = Path(__file__).resolve().parents[2] / "broker_mirror"


def pure_files() -> list[Path]:
    names = (
        "filters.py",
        "flows.py",
        "journal.py",
        "merged.py",
        "pacing.py",
        "policy.py",
        "sharing.py",
        "translation.py",
    )
    tasks = (MIRROR / "tasks" / name for name in ("acls.py", "checkpoints.py", "groups.py", "topics.py"))
    of_copy = (
        "actions.py",
        "assignment.py",
        "flow.py",
        "message_sets.py",
        "partition.py",
        "status.py",
        "topic_ids.py",
        "transforms.py",
    )
    copy = (MIRROR / "copy" / name for name in of_copy)
    proof = (MIRROR / "proof" / name for name in ("drilling.py", "keys.py", "pairing.py", "ranges.py"))
    link = MIRROR / "link" / "groups.py"
    return [
        link,
        *(MIRROR / name for name in names),
        *(MIRROR / "formats").glob("*.py"),
        *(MIRROR / "transforms").glob("*.py"),
        *tasks,
        *copy,
        *proof,
    ]


def test_pure_files_use_nothing_of_the_machine() -> None:
    """If this fails, the world of the simulation cannot be repeated."""
    found = {path.name: uses(path) for path in pure_files()}
    assert len(found) > 8
    assert {name: used for name, used in found.items() if used} == {}
