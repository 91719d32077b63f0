"""What schemathesis is told: to name the served model, to resume no stream, and to ask an endless one for one event."""

import schemathesis

from tests.sdks.scenarios.checks import MODEL


@schemathesis.hook
def map_body(context: object, body: object) -> object:
    """Name the model, or nearly every answer would be that there is no such model."""
    del context
    return {**body, "model": MODEL} if isinstance(body, dict) and isinstance(body.get("model"), str) else body


@schemathesis.hook
def map_query(context: schemathesis.HookContext, query: object) -> object:
    """Ask for one snapshot where there would be snapshots for ever."""
    if context.operation is None or not context.operation.path.endswith("/ledger/events"):
        return query
    return {**(query if isinstance(query, dict) else {}), "count": 1}


@schemathesis.hook
def map_headers(context: object, headers: object) -> object:
    """Leave out the event that was the last to arrive, or every answer would be that there is no such stream."""
    del context
    return {name: value for name, value in headers.items() if name != "Last-Event-ID"} if headers else headers
