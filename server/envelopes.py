"""Envelopes: the shape in which an error is told. The path that was asked decides whose."""

from starlette.types import Scope

from server.wire.message_bodies import MessagesErrorBody, MessagesErrorEnvelope
from server.wire.status import ErrorBody, ErrorEnvelope

MESSAGES = "/messages"
_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
}
TOO_LONG = "prompt is too long: "  # the words at which agents make their conversation shorter and go on


def envelope(scope: Scope, status: int, body: ErrorBody) -> ErrorEnvelope | MessagesErrorEnvelope:
    """An error as the API that was asked tells it."""
    if not _is_messages(scope):
        return ErrorEnvelope(error=body)
    return messages_envelope(status, body, request_id=scope.get("state", {}).get("request_id"))


def _is_messages(scope: Scope) -> bool:
    path: str = scope["path"].removeprefix("/v1")
    return path == MESSAGES or path.startswith(f"{MESSAGES}/")


def messages_envelope(status: int, body: ErrorBody, *, request_id: str | None) -> MessagesErrorEnvelope:
    """An error in Anthropic's words."""
    kind = _TYPES.get(status) or ("api_error" if status >= 500 else "invalid_request_error")  # noqa: PLR2004  # HTTP's
    told = MessagesErrorBody(type=kind, message=_message(status, body))
    return MessagesErrorEnvelope(type="error", error=told, request_id=request_id)


def _message(status: int, body: ErrorBody) -> str:
    """The error's own message, with the field at fault in front: nothing else in this envelope names it."""
    message, param = body["message"], body["param"]
    if body["code"] == "context_length_exceeded":
        return TOO_LONG + message
    named = param is None or status != 400 or message.startswith(f"{param}: ")  # noqa: PLR2004  # other errors have no field
    return message if named else f"{param}: {message}"
