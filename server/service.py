"""Service: what the routes are handed. The model comes when it has loaded, and may be lost again."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256
from typing import Self

from starlette.requests import Request as HttpRequest

from config.settings import Settings
from engine.stats import ModelInfo
from engine.text import Tokenizer
from server.background import Background
from server.dialect import Dialect, dialect_of
from server.door import Built, EngineDoor
from server.errors import ApiError, unavailable
from server.lookout import Lookout
from server.recorder import RequestMetrics
from server.records import Records
from server.store import Store
from server.version import VERSION


class State(StrEnum):
    """What the server is doing; the values are metric labels, and but for READY the codes of /ready."""

    READY = "ready"
    LOADING = "model_loading"
    DRAINING = "draining"
    STALLED = "stalled"  # a model step takes too long
    STOPPED = "engine_stopped"


@dataclass(frozen=True, slots=True)
class Loaded:
    """A loaded model, its ways, the names that it is served under, its own first, and what tells it from others."""

    engine: EngineDoor
    tokenizer: Tokenizer
    names: tuple[str, ...]
    fingerprint: str
    dialect: Dialect

    def check_name(self, model: str) -> None:
        """Raise the 404 that lists what is served, unless `model` is."""
        if model not in self.names:
            message = f"no such model; this server has {', '.join(self.names)}"
            raise ApiError(404, message, code="model_not_found", param="model")


class Service:
    """The record behind `request.app.state.service`. Its state is written by whoever runs the process."""

    def __init__(self, settings: Settings, *, clock: Callable[[], float] = time.time) -> None:
        self.settings = settings
        self.requests = RequestMetrics()
        self.background = Background()
        self.store = Store(
            settings.server.store_path, seconds=settings.server.store_seconds, max_bytes=settings.server.store_bytes
        )
        self.records = Records(seconds=settings.server.resume_seconds, max_bytes=settings.server.resume_bytes)
        self.lookout = Lookout(settings)
        self.started = int(clock())  # seconds since 1970
        self.failed = False
        self._clock = clock
        self._loaded: Loaded | None = None

    @classmethod
    def of(cls, request: HttpRequest) -> Self:
        """The service that a request came to."""
        service = request.app.state.service
        assert isinstance(service, cls)
        return service

    def attach(self, built: Built) -> None:
        """The model has loaded: serve it."""
        names = (built.engine.info.name, *self.settings.model.aliases)
        dialect = dialect_of(
            built.tokenizer.chat_template,
            self.settings.server,
            built.engine.vocabulary,
            eos_ids=built.tokenizer.eos_ids,
        )
        self._loaded = Loaded(built.engine, built.tokenizer, names, _fingerprint(built.engine.info), dialect)

    def fail(self) -> None:
        """The engine is dead: nothing is served any more."""
        self.failed = True
        self.lookout.close()

    def now(self) -> int:
        """The time, in seconds since 1970."""
        return int(self._clock())

    @property
    def model(self) -> Loaded | None:
        """The model, if it has loaded."""
        return self._loaded

    @property
    def state(self) -> State:
        """What the server is doing now."""
        if self.failed:
            return State.STOPPED
        if self._loaded is None:
            return State.LOADING
        if not self._loaded.engine.accepting:
            return State.DRAINING
        return State.STALLED if self._loaded.engine.stalled else State.READY

    def loaded(self) -> Loaded:
        """The model, or the 503 that says why there is none."""
        if self.failed:
            raise unavailable(State.STOPPED, "the engine has stopped and the server is about to end")
        if self._loaded is None:
            raise unavailable(State.LOADING, "the model is being loaded")
        return self._loaded


def _fingerprint(info: ModelInfo) -> str:
    """Changes with whatever could change an answer: this code, the weights' type, the cache's layout."""
    parts = (VERSION, info.name, info.architecture, info.dtype, info.cache.dtype, info.cache.layout)
    return "fp_" + sha256("\n".join(parts).encode()).hexdigest()[:12]
