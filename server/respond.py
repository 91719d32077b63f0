"""JSON answers: orjson in place of the standard library."""

from collections.abc import Mapping

import orjson
from starlette.responses import Response


def json_response(body: object, *, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """An answer with `body` as JSON."""
    return Response(orjson.dumps(body), status, headers, media_type="application/json")
