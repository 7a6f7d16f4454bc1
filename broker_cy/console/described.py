"""The cluster with its active controller, which DescribeCluster of a broker does not name."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Final

from broker_cy.admin import AdminClient
from broker_cy.admin.cluster import ClusterDescription
from broker_cy.client.errors import ClientError, Failure

# A quorum without a leader does not answer; everything else is known by then.
QUORUM_S: Final = 2.0
_NONE: Final = -1


async def described_now(client: AdminClient) -> ClusterDescription:
    """The cluster; `controller_id` is the leader of the metadata quorum, -1 without a leader.

    DescribeCluster names any broker, because each broker forwards changes (KIP-590). Without a reported quorum, that
    answer stays. Raises ClientError.
    """
    found = await client.cluster.describe()
    try:
        async with asyncio.timeout(QUORUM_S):
            quorum = await client.quorum.describe()
    except TimeoutError:
        return replace(found, controller_id=_NONE)
    except ClientError as error:
        return found if error.failure is Failure.UNSUPPORTED else replace(found, controller_id=_NONE)
    return replace(found, controller_id=quorum.leader_id)
