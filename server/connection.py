"""Connection: what an answer is sent on, which the application itself can break off."""

from starlette.types import Receive, Scope

from server.http_head import BoundedHead

BREAK_OFF = "tidemark.break_off"  # an extension of ASGI: closes the connection at once


class Connection(BoundedHead):
    """Tells the application how to close it. uvicorn takes an answer without an end for an error of ours."""

    def on_message_begin(self) -> None:
        """The first byte of a request."""
        super().on_message_begin()
        self.scope["extensions"] = {BREAK_OFF: {"close": self.transport.abort}}


async def break_off(scope: Scope, receive: Receive) -> None:
    """Close a connection whose answer has no end, if it is still open, so that its client knows; return once it is."""
    extension = scope.get("extensions", {}).get(BREAK_OFF)
    if extension is None:
        return
    extension["close"]()
    while (await receive())["type"] != "http.disconnect":
        pass
