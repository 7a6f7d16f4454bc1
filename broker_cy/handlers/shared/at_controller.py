"""Requests that only the active controller can answer: one order of forwarding, authorization, the act and errors.

A broker forwards the request, and the node that is the active controller checks the right and acts (KIP-590). A
KafkaError on either way becomes the error of the response, whose form differs from API to API.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar, cast

from broker_cy.broker.context import RequestContext
from broker_cy.core.errors import KafkaError
from broker_cy.security.acls import Operation
from broker_cy.wire.codec import Message

Q = TypeVar("Q", bound=Message)
R = TypeVar("R", bound=Message)

Act = Callable[[RequestContext, Q], Coroutine[Any, Any, R]]
Failed = Callable[[RequestContext, Q, KafkaError], R]


def at_controller(
    response: type[R],
    failed: Failed[Q, R] | None = None,
    *,
    before: Callable[[RequestContext, Q], None] | None = None,
    needs: Operation | None = None,
    is_brief: bool = False,
    stays_at_controllers: bool = False,
) -> Callable[[Act[Q, R]], Act[Q, R]]:
    """Let the decorated function answer on the active controller, and forward its requests from other nodes.

    `before` may refuse a request, by a KafkaError, on each node that it comes to. `needs` is an operation on the
    cluster that the answering node authorizes, with a brief error or not (`require_cluster`). `failed` makes the
    response for an error; without it the response has its code and message. `stays_at_controllers`: this node answers
    requests on its controller listeners itself, whether it is active or not.
    """

    def decorate(act: Act[Q, R]) -> Act[Q, R]:
        @functools.wraps(act)
        async def answer(ctx: RequestContext, request: Q) -> R:
            try:
                if before is not None:
                    before(ctx, request)
                if not (stays_at_controllers and ctx.is_for_controller):
                    found = await ctx.broker.controller.forward(ctx, request, response)
                    if found is not None:
                        return cast(R, found)
                if needs is not None:
                    ctx.require_cluster(needs, is_brief=is_brief)
                return await act(ctx, request)
            except KafkaError as error:
                if failed is not None:
                    return failed(ctx, request, error)
                return cast(R, cast(Any, response)(error_code=int(error.code), error_message=error.message))

        return answer

    return decorate
