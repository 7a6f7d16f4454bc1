"""Members of a group, planned against current."""

from __future__ import annotations

from dataclasses import replace

import pytest

from broker_cy.admin import AdminClient
from broker_cy.admin.group_values import GroupDescription
from broker_cy.console.columns import groups as columns
from broker_cy.console.members import difference_text, group_facts, member_rows, task_rows
from broker_cy.reporting.tone import Tone
from tests.support.fake_groups import BILLING, CHECKOUT, ENRICH, REPORTS, FakeGroups


@pytest.fixture
def groups(monkeypatch: pytest.MonkeyPatch) -> dict[str, GroupDescription]:
    """The groups as the admin client describes them."""

    async def job(client: AdminClient) -> dict[str, GroupDescription]:
        return (await client.groups.describe([BILLING, CHECKOUT, ENRICH, REPORTS])).whole()

    return FakeGroups().run(monkeypatch, job)


def test_a_member_shows_what_it_gives_up_and_whom_it_waits_for(groups: dict[str, GroupDescription]) -> None:
    """If this fails, a rebalance that hangs does not show which member holds the partitions back."""
    rows = member_rows(groups[BILLING])
    assert [difference_text(row) for row in rows] == [
        "gives up orders 2",
        "waits for orders 2 of worker-0",
        "takes orders 4",
    ]
    assert not any(row.is_settled for row in rows)


def test_the_holders_of_many_partitions_are_counted(groups: dict[str, GroupDescription]) -> None:
    """If this fails, one cell lists thousands of members."""
    group = groups[BILLING]
    waiting, target = group.members[1], group.members[0].assignment
    holders = tuple(
        replace(group.members[0], member_id=f"m-{n}", client_id=f"c-{n}", assignment=(part,), target=())
        for n, part in enumerate((*target, *(group.members[2].target or ())))
    )
    every = replace(waiting, member_id="w", target=tuple(part for each in holders for part in each.assignment))
    (*_, row) = member_rows(replace(group, members=(*holders, every)))
    assert difference_text(row).startswith("gives up orders 3; waits for orders 0-2,4 of c-0, c-1, c-2 and 1 more")


def test_the_head_of_a_group_shows_epochs_and_conversion(groups: dict[str, GroupDescription]) -> None:
    """If this fails, the progress of a conversion or of a rebalance is not shown."""
    facts = {fact.name: (fact.value, fact.tone) for fact in group_facts(groups[BILLING])}
    assert facts == {
        "epoch": ("7", Tone.PLAIN),
        "assignment epoch": ("7", Tone.PLAIN),
        "reconciling": ("3 of 3 members", Tone.WARN),
        "conversion": ("2 of 3 members", Tone.NOTED),
    }
    many = replace(groups[BILLING], members=groups[BILLING].members * 1_000)
    assert {"2,000 of 3,000 members", "3,000 of 3,000 members"} <= {fact.value for fact in group_facts(many)}
    behind = {fact.name: fact.tone for fact in group_facts(replace(groups[BILLING], assignment_epoch=6))}
    assert behind["assignment epoch"] is Tone.WARN
    assert list(group_facts(groups[REPORTS])) == []
    assert "conversion" not in {fact.name for fact in group_facts(groups[CHECKOUT])}


def test_tasks_show_owner_plan_and_standby_copies(groups: dict[str, GroupDescription]) -> None:
    """If this fails, it is not shown which task moves, or which state is lost with a process."""
    group = groups[ENRICH]
    assert [difference_text(row) for row in member_rows(group)] == ["gives up 1_1", "waits for 1_1 of node-a"]
    shown = [
        [column.shown(row) for column in (columns.TASK, columns.TASK_STATE, columns.TASK_OWNER, columns.TASK_PLANNED)]
        for row in task_rows(group)
    ]
    assert shown == [
        ["0_0", "stateless", "node-a", "-"],
        ["0_1", "stateless", "node-b", "-"],
        ["1_0", "stateful", "node-a", "-"],
        ["1_1", "stateful", "node-a", "node-b"],
    ]
    assert [row.is_covered for row in task_rows(group)] == [False, False, True, False]
    facts = {fact.name: fact.value for fact in group_facts(group)}
    assert facts["topology"] == "epoch 2, 2 subtopologies"
    assert facts["standbys"] == "1 of 2 tasks with state"


def test_a_standby_in_the_process_of_the_owner_covers_nothing(groups: dict[str, GroupDescription]) -> None:
    """If this fails, state counts as safe although one process has every copy."""
    group = groups[ENRICH]
    first, second = group.members
    assert second.streams is not None
    same = replace(second, streams=replace(second.streams, process_id="process-a"))
    assert not any(row.is_covered for row in task_rows(replace(group, members=(first, same))))
