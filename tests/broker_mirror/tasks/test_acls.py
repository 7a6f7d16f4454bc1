"""The ACLs of remote topics: the scenarios of MirrorSourceConnectorTest about ACLs, as rows."""

from __future__ import annotations

import pytest

from broker_cy.security.acls import Binding, Operation, PatternType, Permission, ResourceType
from broker_mirror.tasks.acls import plan_acls
from tests.broker_mirror.tasks.flow_rows import flow_of

ALLOW, DENY = Permission.ALLOW, Permission.DENY


def acl(
    name: str,
    operation: Operation,
    permission: Permission = ALLOW,
    pattern: PatternType = PatternType.LITERAL,
    kind: ResourceType = ResourceType.TOPIC,
) -> Binding:
    return Binding(kind, name, pattern, "User:alice", "*", operation, permission)


@pytest.mark.parametrize(
    ("source", "wanted"),
    [
        pytest.param(acl("t", Operation.READ), acl("A.t", Operation.READ), id="reading is allowed as in the source"),
        pytest.param(acl("t", Operation.ALL), acl("A.t", Operation.READ), id="all operations become reading"),
        pytest.param(acl("t", Operation.WRITE), None, id="writing is not allowed"),
        pytest.param(acl("t", Operation.WRITE, DENY), acl("A.t", Operation.WRITE, DENY), id="denials are copied"),
        pytest.param(acl("t", Operation.ALL, DENY), acl("A.t", Operation.ALL, DENY), id="all denials are copied"),
        pytest.param(acl("t", Operation.READ, pattern=PatternType.PREFIXED), None, id="prefixes are left out"),
        pytest.param(acl("t", Operation.READ, kind=ResourceType.GROUP), None, id="groups are left out"),
        pytest.param(acl("B.t", Operation.READ), None, id="topics of the target are left out"),
        pytest.param(acl("__x", Operation.READ), None, id="internal topics are left out"),
    ],
)
def test_acls_of_remote_topics(source: Binding, wanted: Binding | None) -> None:
    """If this fails, a user may write to a mirror's topic, or can no longer read after a failover."""
    assert plan_acls(flow_of(), [source], []) == ([] if wanted is None else [wanted])


def test_present_acls_are_not_created_again() -> None:
    """If this fails, each turn changes the ACLs of the target."""
    assert plan_acls(flow_of(), [acl("t", Operation.READ), acl("t", Operation.ALL)], [acl("A.t", Operation.READ)]) == []
