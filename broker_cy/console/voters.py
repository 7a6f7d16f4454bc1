"""The metadata quorum as it is now, and in words: the voters that are away, and how many more it can lose."""

from __future__ import annotations

from broker_cy.admin import AdminClient
from broker_cy.admin.quorum import QuorumDescription
from broker_cy.client.errors import ClientError, Failure
from broker_cy.console.figures import Fact
from broker_cy.console.moving import ids_text
from broker_cy.reporting.tone import Tone


async def quorum_now(client: AdminClient) -> QuorumDescription | None:
    """The quorum; None if the broker does not report it. Raises ClientError."""
    try:
        return await client.quorum.describe()
    except ClientError as error:
        if error.failure is not Failure.UNSUPPORTED:
            raise
        return None


def spare_text(quorum: QuorumDescription) -> str:
    """`it can lose 1 more`, `it has no leader once another one is lost`."""
    return f"it can lose {quorum.spare} more" if quorum.spare else "it has no leader once another one is lost"


def away_text(quorum: QuorumDescription) -> str:
    """`the metadata quorum has lost voter 3 of 3`; only if one is away."""
    return f"the metadata quorum has lost {ids_text('voter', quorum.away)} of {len(quorum.voters)}"


def voters_fact(quorum: QuorumDescription) -> Fact:
    """The number of voters, and those that are away."""
    if not quorum.away:
        return Fact("voters", str(len(quorum.voters)))
    value = f"{len(quorum.voters)}, away: {', '.join(map(str, quorum.away))}; {spare_text(quorum)}"
    return Fact("voters", value, Tone.WARN if quorum.spare else Tone.BAD)
