"""App: the routes and what stands around them, outermost first."""

from typing import Any

from fastapi import FastAPI
from starlette.middleware.cors import CORSMiddleware

from config.settings import ServerSettings, Settings
from server.errors import install_error_handlers
from server.exchange import Exchanges, Tracing
from server.logs import Log
from server.metrics import Metrics, Reading
from server.middleware import BodyLimit, Heads, Keys, TypedBodies, cors_options
from server.openapi import complete
from server.routes import (
    chat,
    completions,
    embeddings,
    health,
    ledger,
    messages,
    metrics,
    models,
    pages,
    responses,
    tokens,
)
from server.service import Service
from server.version import VERSION

ROUTERS = tuple(
    module.router
    for module in (chat, completions, responses, embeddings, messages, models, tokens, health, metrics, ledger)
)


class Surface(FastAPI):
    """FastAPI that describes itself completely, with examples that ask for `model`."""

    def __init__(self, model: str) -> None:
        super().__init__(title="Tidemark", version=VERSION, docs_url=None, redoc_url=None, redirect_slashes=False)
        self.openapi_version = "3.2.0"  # the first that describes the events of a stream
        self._model = model

    def openapi(self) -> dict[str, Any]:  # JSON by its nature
        """What /openapi.json says; made once."""
        if self.openapi_schema is None:
            complete(super().openapi(), model=self._model)
        assert self.openapi_schema is not None
        return self.openapi_schema


def create_app(settings: Settings, service: Service, *, log: Log, tracing: Tracing | None = None) -> FastAPI:
    """The whole HTTP surface over `service`; routes find it in `app.state`, and `metrics` and `routes` beside it."""
    app = Surface(settings.model.served_name)
    app.state.service = service
    app.state.routes = [route for router in ROUTERS for route in router.routes]
    app.state.metrics = Metrics(lambda: _read(service), vllm_names=settings.server.vllm_metrics)
    for router in ROUTERS:
        app.include_router(router, prefix="/v1")
        app.include_router(router, include_in_schema=False)
    app.include_router(pages.router)
    install_error_handlers(app)
    _surround(app, settings.server, log, tracing)
    return app


def _surround(app: FastAPI, settings: ServerSettings, log: Log, tracing: Tracing | None) -> None:
    """Each call puts its middleware around the earlier ones."""
    app.add_middleware(TypedBodies)
    app.add_middleware(Keys, keys=settings.api_keys, open_paths=_open_paths(settings))
    app.add_middleware(BodyLimit, max_bytes=settings.max_body_bytes)
    app.add_middleware(Heads)
    app.add_middleware(Exchanges, log=log, tracing=tracing)
    app.add_middleware(CORSMiddleware, **cors_options(settings.cors_origins))


def _open_paths(settings: ServerSettings) -> frozenset[str]:
    """What needs no key, without the prefix."""
    always = {"/", "/health", "/ready", *pages.OPEN}
    return frozenset(always if settings.metrics_need_key else always | {"/metrics"})


def _read(service: Service) -> Reading:
    loaded, requests, guesses = service.model, service.requests.view(), service.settings.model.draft_path is not None
    if loaded is None:
        name = service.settings.model.served_name
        return Reading(name, service.state, cache=None, snapshot=None, requests=requests, guesses=guesses)
    info = loaded.engine.info
    snapshot = loaded.engine.look().snapshot  # which leaves out the tables, as every scrape would
    return Reading(info.name, service.state, info.cache, snapshot, requests, guesses)
