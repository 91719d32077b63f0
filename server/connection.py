"""Connection: what an answer is sent on, which the application itself can break off."""

from typing import Any

import orjson
from starlette.types import Receive, Scope

from server.envelopes import envelope
from server.errors import ApiError
from server.exchange import new_request_id
from server.http_head import BoundedHead
from server.logs import Log

BREAK_OFF = "tidemark.break_off"  # an extension of ASGI: closes the connection at once


class Connection(BoundedHead):
    """Tells the application how to close it. uvicorn takes an answer without an end for an error of ours.

    What can't be read as HTTP never gets to the application: its error is told and logged here.
    """

    def __init__(self, *given: Any, log: Log, **named: Any) -> None:  # uvicorn's own
        super().__init__(*given, **named)
        self._log = log

    def on_message_begin(self) -> None:
        """The first byte of a request."""
        super().on_message_begin()
        self.scope["extensions"] = {BREAK_OFF: {"close": self.transport.abort}}

    def send_400_response(self, msg: str) -> None:
        """Refuse what came, and close. What was the body of a request is told in that one's line."""
        error, cycle = ApiError(400, msg, code="malformed_request"), self.cycle
        is_body = cycle is not None and cycle.more_body
        answers = cycle is not None and cycle.response_started and (is_body or not cycle.response_complete)
        scope: Scope = dict(cycle.scope) if is_body else {"path": "", "state": {}}
        scope["state"]["error_code"] = error.name
        request_id = scope["state"].setdefault("request_id", new_request_id())
        if not answers:  # whoever reads an answer must not take this for more of it
            self.transport.write(_told(error, scope, request_id))
        self.transport.close()
        if not is_body:
            self._log.request({"status": error.status, "request_id": request_id, "error_code": error.name}, probe=False)


def _told(error: ApiError, scope: Scope, request_id: str) -> bytes:
    body = orjson.dumps(envelope(scope, error.status, error.body))
    head = (
        f"HTTP/1.1 {error.status} Bad Request",
        "content-type: application/json",
        f"content-length: {len(body)}",
        f"x-request-id: {request_id}",
        f"request-id: {request_id}",
        "connection: close",
    )
    return "\r\n".join((*head, "", "")).encode() + body


async def break_off(scope: Scope, receive: Receive) -> None:
    """Close a connection whose answer has no end, if it is still open, so that its client knows; return once it is."""
    extension = scope.get("extensions", {}).get(BREAK_OFF)
    if extension is None:
        return
    extension["close"]()
    while (await receive())["type"] != "http.disconnect":
        pass
