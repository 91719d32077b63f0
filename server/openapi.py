"""What /openapi.json says that the routes' types do not: bodies that they read themselves, errors, examples, keys."""

from collections.abc import Iterator
from http import HTTPStatus
from typing import Any

from pydantic import TypeAdapter

from server.examples import examples_of
from server.wire.base import Wire
from server.wire.message_bodies import MessagesErrorEnvelope
from server.wire.status import ErrorEnvelope

JsonSchema = dict[str, Any]  # JSON by its nature

JSON = "application/json"
ERRORS: dict[int | str, JsonSchema] = {"default": {"model": ErrorEnvelope, "description": "What went wrong."}}
MESSAGES_ERRORS: dict[int | str, JsonSchema] = {
    "default": {"model": MessagesErrorEnvelope, "description": "What went wrong."}
}

_REASONS = {
    HTTPStatus.BAD_REQUEST: "The request is wrong; `param` names the first field at fault.",
    HTTPStatus.UNAUTHORIZED: "No key, or a wrong one.",
    HTTPStatus.NOT_FOUND: "There is no such model or id.",
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: "The body is too large.",
    HTTPStatus.UNSUPPORTED_MEDIA_TYPE: "The body is not JSON by its type.",
    HTTPStatus.TOO_MANY_REQUESTS: "The queue is full.",
    HTTPStatus.INTERNAL_SERVER_ERROR: "The server failed on this request.",
    HTTPStatus.SERVICE_UNAVAILABLE: "The server loads, drains or has stopped.",
}
_COMES_BACK = (HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE)
_ALWAYS = (HTTPStatus.UNAUTHORIZED, HTTPStatus.INTERNAL_SERVER_ERROR, HTTPStatus.SERVICE_UNAVAILABLE)
_WITH_PARAMETERS = (HTTPStatus.BAD_REQUEST, HTTPStatus.NOT_FOUND)
_WITH_BODY = (
    *_WITH_PARAMETERS,
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
    HTTPStatus.TOO_MANY_REQUESTS,
)
_RETRY_AFTER = {"retry-after": {"description": "Seconds to wait.", "schema": {"type": "integer", "minimum": 1}}}
_LAST_EVENT_ID = {
    "name": "Last-Event-ID",
    "in": "header",
    "required": False,
    "schema": {"type": "string"},
    "description": "the last event of a stream that arrived: what came after it is sent, and the body is not read",
}
_KEYS = {
    "bearer": {"type": "http", "scheme": "bearer"},
    "x-api-key": {"type": "apiKey", "in": "header", "name": "x-api-key"},
}


def body_of(model: type[Wire]) -> JsonSchema:
    """An operation's `requestBody`, for a model's JSON."""
    schema = model.model_json_schema()
    definitions = schema.pop("$defs", {})
    return {"requestBody": {"required": True, "content": {JSON: {"schema": _inlined(schema, definitions)}}}}


def resumable(extra: JsonSchema) -> JsonSchema:
    """An operation whose stream can be resumed."""
    return extra | {"parameters": [*extra.get("parameters", ()), _LAST_EVENT_ID]}


def parameter(name: str, schema: JsonSchema, description: str) -> JsonSchema:
    """A parameter of the query, which may be left out."""
    return {"name": name, "in": "query", "required": False, "schema": schema, "description": description}


def streamed(event: TypeAdapter[Any], *, ends_with: str | None = None) -> dict[int | str, JsonSchema]:
    """A 200 that may come as a stream: the type of each event's JSON, and the last data where that is none."""
    json: JsonSchema = {"contentMediaType": JSON, "contentSchema": _schema_of(event)}
    data = json if ends_with is None else {"anyOf": [json, {"const": ends_with}]}
    item = {"type": "object", "required": ["data"], "properties": {"data": {"type": "string", **data}}}
    return {200: {"content": {"text/event-stream": {"itemSchema": item}}, "description": "The answer."}}


def _schema_of(adapter: TypeAdapter[Any]) -> Any:  # JSON by its nature
    schema = adapter.json_schema(mode="serialization")
    return _inlined(schema, schema.pop("$defs", {}))


def _inlined(node: Any, definitions: JsonSchema) -> Any:  # JSON by its nature
    """The schema without references: a reference would point into the whole document."""
    if isinstance(node, list):
        return [_inlined(child, definitions) for child in node]
    if not isinstance(node, dict):
        return node
    if "$ref" in node:
        return _inlined(definitions[node["$ref"].rpartition("/")[2]], definitions)
    return {key: _inlined(child, definitions) for key, child in node.items()}


def complete(document: JsonSchema, *, model: str) -> None:
    """Add to the whole description what no route says: each error by its status, examples, and how keys are sent."""
    document["components"]["securitySchemes"] = _KEYS
    document["security"] = [{}, *({name: []} for name in _KEYS)]  # the empty one: a server may have no keys
    for path, operations in document["paths"].items():
        for operation in operations.values():
            _tell_errors_apart(operation)
            if "requestBody" in operation:
                operation["requestBody"]["content"][JSON]["examples"] = examples_of(path, model=model)
            for parameter in operation.get("parameters", ()):
                if (path, parameter["name"]) == ("/v1/models/{id}", "id"):
                    parameter["example"] = model


def _tell_errors_apart(operation: JsonSchema) -> None:
    """Put the statuses that an operation can answer in the place of its `default`."""
    responses = operation["responses"]
    other = responses.pop("default", None)
    if other is None:
        return
    for status in _statuses(operation):
        described = {"description": _REASONS[status], "content": other["content"]}
        responses.setdefault(
            str(status.value), described | ({"headers": _RETRY_AFTER} if status in _COMES_BACK else {})
        )


def _statuses(operation: JsonSchema) -> Iterator[HTTPStatus]:
    mine = {*_ALWAYS}
    if "parameters" in operation:
        mine |= {*_WITH_PARAMETERS}
    if "requestBody" in operation:
        mine |= {*_WITH_BODY}
    yield from sorted(mine)
