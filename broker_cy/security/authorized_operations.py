"""The AclOperations that there are for each type of resource, as bits (KIP-430): all of them are allowed without an
authorizer.
"""

from __future__ import annotations

from typing import Final

from broker_cy.security.acls import OPERATIONS, ResourceType

NOT_ASKED: Final = -(2**31)


SUPPORTED: Final = {
    each: sum(1 << operation for operation in OPERATIONS[each])
    for each in (ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER)
}
