"""What /openapi.json says about bodies that the routes read themselves."""

from typing import Any

from server.wire.base import Wire
from server.wire.status import ErrorEnvelope

JsonSchema = dict[str, Any]  # JSON by its nature

ERRORS: dict[int | str, JsonSchema] = {"default": {"model": ErrorEnvelope, "description": "What went wrong."}}
STREAMED: dict[int | str, JsonSchema] = {
    200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}, "description": "The answer."}
}


def body_of(model: type[Wire]) -> JsonSchema:
    """An operation's `requestBody`, for a model's JSON."""
    schema = model.model_json_schema()
    definitions = schema.pop("$defs", {})
    content = {"application/json": {"schema": _inlined(schema, definitions)}}
    return {"requestBody": {"required": True, "content": content}}


def _inlined(node: Any, definitions: JsonSchema) -> Any:  # JSON by its nature
    """The schema without references: a reference would point into the whole document."""
    if isinstance(node, list):
        return [_inlined(child, definitions) for child in node]
    if not isinstance(node, dict):
        return node
    if "$ref" in node:
        return _inlined(definitions[node["$ref"].rpartition("/")[2]], definitions)
    return {key: _inlined(child, definitions) for key, child in node.items()}
