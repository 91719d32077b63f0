"""Tasks: work that ends when its client leaves."""

from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from typing import TypeVar

from anyio import CancelScope, create_task_group
from anyio.abc import TaskGroup
from starlette.requests import ClientDisconnect
from starlette.types import Receive

T = TypeVar("T")


@asynccontextmanager
async def task_group() -> AsyncIterator[TaskGroup]:
    """A task group that raises its first failure as itself; what it cancelled had no other outcome."""
    try:
        async with create_task_group() as group:
            yield group
    except ExceptionGroup as failures:
        failure = failures.exceptions[0]
        raise failure from failure.__cause__


async def cancel_when_gone(receive: Receive, scope: CancelScope) -> None:
    """Wait for the client to leave, then cancel."""
    while (await receive())["type"] != "http.disconnect":
        pass
    scope.cancel()


async def unless_gone(receive: Receive, work: Awaitable[T]) -> T:
    """The work's result, or ClientDisconnect as soon as the client has left. The body has been read."""
    async with task_group() as group:
        group.start_soon(cancel_when_gone, receive, group.cancel_scope)
        result = await work
        group.cancel_scope.cancel()
        return result
    raise ClientDisconnect
