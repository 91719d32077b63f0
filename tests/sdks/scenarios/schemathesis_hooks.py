"""What schemathesis is told: to name the model that is served, and to ask an endless stream for one event."""

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
