"""The ACLs of remote topics, as MirrorSourceConnector of Kafka 4.3.1 plans them.

ACLs of single topics (literal patterns) that are copied are given to their remote topics. An ACL that allows writing is
left out, because only the mirror writes there; one that allows all operations allows reading. No ACL is deleted.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from broker_cy.security.acls import Binding, Operation, PatternType, Permission, ResourceType
from broker_mirror.flows import Flow


def plan_acls(flow: Flow, source: Iterable[Binding], target: Collection[Binding]) -> list[Binding]:
    """Return the ACLs to create in the target, without those that it has."""
    wanted = dict.fromkeys(_remote(flow, each) for each in source if _is_copied(flow, each))
    present = set(target)
    return [each for each in wanted if each not in present]


def _is_copied(flow: Flow, binding: Binding) -> bool:
    if binding.resource_type is not ResourceType.TOPIC or binding.pattern_type is not PatternType.LITERAL:
        return False
    if binding.permission is Permission.ALLOW and binding.operation is Operation.WRITE:
        return False
    return flow.copies_topic(binding.name)


def _remote(flow: Flow, binding: Binding) -> Binding:
    remote = binding._replace(name=flow.remote_topic(binding.name))
    if binding.permission is Permission.ALLOW and binding.operation is Operation.ALL:
        return remote._replace(operation=Operation.READ)
    return remote
