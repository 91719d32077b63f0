"""Metrics: the exposition that Prometheus scrapes."""

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from server.metrics import Metrics

router = APIRouter(tags=["status"])


@router.get("/metrics", response_class=Response)
async def get_metrics(request: Request) -> Response:
    """Every family, from one snapshot; zeros while the model loads."""
    metrics = request.app.state.metrics
    assert isinstance(metrics, Metrics)
    body, content_type = metrics.render(request.headers.get("accept", ""))
    return Response(body, headers={"content-type": content_type})
