"""The audit page: entries with their filter, and access to them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from broker_cy.client.errors import ClientError
from dashboard.security.audit import Audit
from dashboard.security.roles import Identity, Scope
from tests.dashboard.pages.group_kit import drive, layout_of, seeing
from tests.dashboard.support import ADMIN, OPERATOR, VIEWER, Desk
from tests.support.broker import Target


def test_entries_appear_and_are_filtered(broker: Target, tmp_path: Path) -> None:
    """If this fails, an admin does not find out who did what."""

    async def job(desk: Desk) -> None:
        audit = desk.hub.audit = Audit(tmp_path)
        audit.note(user="ada", act="login", result="done", address="10.0.0.7")
        looker = desk.look("audit")
        await looker.until(lambda state: state["total"] == 1)
        audit.note(
            user="vera", act="topics.delete", result="refused: a viewer", cluster="test", subject="orders\x1b[31m"
        )
        state = await looker.until(lambda state: state["total"] == 2)
        newest, oldest = (row["cells"] for row in state["rows"])
        assert newest[1] == "vera"
        assert newest[5] == "orders␛[31m"
        assert newest[7] == {"t": "refused: a viewer", "tone": "WARN"}
        assert (oldest[2], oldest[3]) == ("10.0.0.7", "-")
        rows = await desk.rows("audit", filter="10.0.0.7")
        assert [row["user"] for row in rows.values()] == ["ada"]
        facts = {name: value for name, value, _ in (await desk.state("audit-state"))["facts"]}
        assert facts == {"file": str(tmp_path / "audit.log"), "entries lost": "0"}
        assert '"channel": "audit"' in layout_of(desk, "audit")
        audit.close()

    drive(broker.bootstrap, job, ADMIN)


@pytest.mark.parametrize("identity", [VIEWER, OPERATOR])
def test_only_admins_read_the_log(broker: Target, identity: Identity) -> None:
    """If this fails, a viewer can read the acts of all users."""

    async def job(desk: Desk) -> None:
        for channel in ("audit", "audit-state"):
            with pytest.raises(ClientError, match="the role admin"):
                desk.look(channel)

    drive(broker.bootstrap, job, identity)


def test_limited_admins_read_nothing_about_others(broker: Target, tmp_path: Path) -> None:
    """If this fails, an admin of one cluster or of some topics reads the names of all others in the log."""

    async def job(desk: Desk) -> None:
        audit = desk.hub.audit = Audit(tmp_path)
        audit.note(user="ada", act="login", result="done")
        audit.note(user="ada", act="topics.delete", result="done", cluster="test", subject="t")
        audit.note(user="ada", act="topics.delete", result="done", cluster="other", subject="secret")
        desk.identity = replace(ADMIN, scope=Scope(clusters=("test",)))
        assert [row["cluster"] for row in (await desk.rows("audit")).values()] == ["test", "-"]
        desk.identity = seeing(ADMIN, topics=("orders",))
        looker = desk.look("audit")
        assert "your account sees only some" in await looker.failed()
        assert looker.states[-1] is None
        audit.close()

    drive(broker.bootstrap, job, ADMIN)


def test_a_dashboard_without_log_says_so(broker: Target) -> None:
    """If this fails, a missing log looks like an empty one."""

    async def job(desk: Desk) -> None:
        assert "has no audit log" in await desk.look("audit").failed()

    drive(broker.bootstrap, job, ADMIN)
