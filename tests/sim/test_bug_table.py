"""The bugs and faults that docs/simulation.md lists: each is found, by a planted defect or by a test."""

from __future__ import annotations

import importlib
import re
from functools import cache
from pathlib import Path

import pytest

from tests.sim.world import fault_defects, faults

TESTS = Path(__file__).resolve().parents[1]
DOCUMENT = TESTS.parent / "docs" / "simulation.md"
OTHERS = "## Bugs of other systems"
OWN = "## Bugs of this project"
FAULTS = "## Faults and their defects"
DESIGN = (
    *(13141, 14704, 13916, 14617, 15221, 15021, 15583, 18106, 19522, 12686, 10706, 16541, 17142, 18723, 9491, 15375),
    *(17608, 14238, 17713, 15489, 19850, 15665, 9672, 16234, 16297, 19996, 18575, 20785),
    # Several data directories.
    *(16082, 19571, 15572, 19289, 16709, 8362, 8002, 9087, 9263, 6949, 9750, 15608, 9654, 10314, 14616),
)
# The rows of the design of the newer group types: bugs of other implementations, each by its issues, or by its
# description if it has none.
GROUP_TYPES = (
    ("KAFKA-16147",),
    ("KAFKA-17306", "KAFKA-19862"),
    ("KAFKA-20254", "KAFKA-21117"),
    ("KAFKA-19233", "KAFKA-23542"),
    ("KAFKA-19899", "KAFKA-19720"),
    ("KAFKA-16861", "KAFKA-17317", "KAFKA-20273"),
    ("KAFKA-20442",),
    ("KAFKA-18688",),
    ("KAFKA-18060", "KAFKA-19163", "KAFKA-19164", "KAFKA-20066"),
    ("CORE-16998", "CORE-17000"),
    ("KAFKA-19476", "KAFKA-18918"),
    ("KAFKA-19227", "KAFKA-19567", "KAFKA-20425"),
    ("KAFKA-19015", "KAFKA-19950", "KAFKA-23510"),
    ("KAFKA-17396", "KAFKA-17351"),
    ("KAFKA-19204", "KAFKA-19456", "KAFKA-17796"),
    ("KAFKA-21426", "KAFKA-20694", "KAFKA-20034"),
    ("an acknowledgement below the first batch",),
    ("KAFKA-20899", "KAFKA-21001"),
)
# The simulations by the name that the tables have for them: the test that plants each of their defects.
PLANTING = {
    "replica": "test_replica_simulation.test_planted_defect_is_found",
    "quorum": "test_quorum_simulation.test_planted_defect_is_found",
    "controller": "test_controller_simulation.test_planted_defect_is_found",
    "consumer groups": "test_consumer_simulation.test_planted_defect_is_found",
    "members": "test_world.test_the_world_finds_planted_defects_of_consumer_groups",
    "share": "test_share_simulation.test_planted_defect_is_found",
    "share clusters": "test_world.test_the_world_finds_planted_defects_of_share_groups",
    "share members": "test_share_members_simulation.test_planted_defect_is_found",
    "share service": "test_share_service_simulation.test_planted_defect_is_found",
    "share state": "test_share_state_simulation.test_planted_defect_is_found",
    "streams": "test_streams_simulation.test_planted_defect_is_found",
    "threads": "test_world.test_the_world_finds_planted_defects_of_streams_groups",
    "groups": "test_group_simulation.test_planted_defect_is_found",
    "transactions": "test_txn_simulation.test_planted_defect_is_found",
    "storage": "test_power_cut.test_the_simulation_finds_planted_defects",
    "world": "test_world.test_the_world_finds_planted_defects",
    "cluster": "test_world.test_clusters_find_planted_defects",
    "several disks": "test_world.test_clusters_find_planted_defects_of_several_disks",
    "two clusters": "test_mirror_worlds.test_planted_defects_are_found",
    "application": "test_app_worlds.test_planted_defects_are_found",
    "pulse": "test_pulse_simulation.test_planted_defect_is_found",
    "shards": "test_shard_simulation.test_planted_defect_is_found",
    "single": "test_single_defects.test_planted_defect_is_found",
}


@cache
def planted_by(simulation: str) -> frozenset[str]:
    """The names of the defects with which the test of a simulation runs: its parameters, not what a module contains."""
    module, _, name = PLANTING[simulation].partition(".")
    test = getattr(importlib.import_module(f"tests.sim.{module}"), name)
    (mark,) = (each for each in test.pytestmark if each.name == "parametrize")
    values = (each.values[0] if isinstance(each, type(pytest.param(0))) else each for each in mark.args[1])
    return frozenset(str(getattr(each, "__name__", each)) for each in values)


@cache
def names_of_tests() -> frozenset[str]:
    return frozenset(
        name
        for path in TESTS.rglob("test_*.py")
        for name in re.findall(r"^(?:async )?def (test_\w+)\(", path.read_text(), re.MULTILINE)
    )


def rows(heading: str) -> list[list[str]]:
    """The cells of the rows of the table below a heading."""
    section = DOCUMENT.read_text().partition(heading)[2].partition("\n## ")[0]
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in section.splitlines() if line[:2] == "| "][1:]


def unknown(found_by: str) -> list[str]:
    """Return the names in a cell that no test uses."""
    missing = []
    for part in found_by.split(";"):
        simulation, colon, _ = part.strip().partition(":")
        names = re.findall(r"`([^`]+)`", part)
        if colon and simulation in PLANTING:
            known = planted_by(simulation)
            missing += [name for name in names if name not in known and f"{simulation}: {name}" not in known]
        else:
            missing += [name for name in names if name not in names_of_tests()]
    return missing


@pytest.mark.parametrize("heading", [OTHERS, OWN])
def test_a_test_plants_what_finds_a_bug(heading: str) -> None:
    """If this fails, docs/simulation.md promises that a bug would be found, and no test plants the defect."""
    table = rows(heading)
    assert len(table) > 15
    for bug, found_by in table:
        assert not unknown(found_by), f"{bug}: {unknown(found_by)}"
        assert re.search(rf"(?:^|; )(?:{'|'.join(PLANTING)}): `", found_by), f"{bug}: no defect is planted"


def test_each_bug_of_the_design_is_in_the_table() -> None:
    """If this fails, a bug that others had is not looked for."""
    text = DOCUMENT.read_text().partition(OTHERS)[2].partition("\n## ")[0]
    named = {int(number) for number in re.findall(r"KAFKA-(\d+)", text)}
    assert set(DESIGN) <= named, set(DESIGN) - named


@pytest.mark.parametrize("row", GROUP_TYPES, ids=" ".join)
def test_each_bug_of_the_newer_group_types_is_in_the_table(row: tuple[str, ...]) -> None:
    """If this fails, a bug that another implementation of consumer, share or streams groups had is not looked for: each
    row of the table has a planted defect.
    """
    bugs = [bug for bug, _ in rows(OTHERS)]
    for name in row:
        assert any(re.search(rf"{name}\b", bug) for bug in bugs), f"{name}: no row"


def test_what_is_named_and_not_planted_is_noticed() -> None:
    """If this fails, the tests above pass whatever the document names."""
    assert unknown("replica: `fenced_replica_joins`; `test_each_bug_of_the_design_is_in_the_table`") == []
    assert unknown("replica: `fenced_replica_joins`, `must_find`; `defects`; `run`") == ["must_find", "defects", "run"]
    assert unknown("quorum: `fenced_replica_joins`") == ["fenced_replica_joins"]


def test_the_table_of_faults_is_that_of_the_tests() -> None:
    """If this fails, a kind of fault finds nothing that the others do not find, or the document does not say what."""
    table = dict(rows(FAULTS))
    assert table.keys() == {f"`{kind}`" for kind in faults.KINDS}
    assert fault_defects.ONLY.keys() == faults.KINDS.keys()
    for kind, only in fault_defects.ONLY.items():
        assert f"`{only.defect}`" in table[f"`{kind}`"], kind
