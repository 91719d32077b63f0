"""Metrics: the exposition that Prometheus scrapes."""

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from server.metrics import Metrics
from server.openapi import ERRORS, JsonSchema

router = APIRouter(tags=["status"])

FORMATS = ("text/plain", "application/openmetrics-text")  # the second where `accept` asks for it
EXPOSITION: dict[int | str, JsonSchema] = {
    200: {"content": {kind: {"schema": {"type": "string"}} for kind in FORMATS}, "description": "Every family."}
}


@router.get("/metrics", response_class=Response, responses=EXPOSITION | ERRORS)
async def get_metrics(request: Request) -> Response:
    """Every family, from one snapshot; zeros while the model loads."""
    metrics = request.app.state.metrics
    assert isinstance(metrics, Metrics)
    body, content_type = metrics.render(request.headers.get("accept", ""))
    return Response(body, headers={"content-type": content_type})
