"""Serve: the process from the bound port to the exit code. Owns the HTTP server and the engine."""

import asyncio
import contextlib
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import NoReturn, Protocol

import uvloop
from pydantic import ByteSize

from config.settings import Settings
from engine.build import Built
from engine.engine import Engine
from engine.errors import EngineError
from engine.stats import CacheInfo, ModelInfo
from server.app import create_app
from server.collector import resting_collector
from server.console import Console
from server.exchange import Tracing
from server.listen import HttpServer, bind, reason_of, url_of
from server.logs import Log
from server.service import Service
from server.signals import SIGNALLED, endings, once_for_a_terminal
from server.stalls import tell_stalls
from server.store import StoreFailed

LEAST_WASTE = 0.0005  # of the blocks' bytes: less would read as 0.0%
LAST_WORDS_SECONDS = (
    2.0  # for what was answered to reach its clients, and spans their collector, beyond the drain limit
)
LAST_STEP_SECONDS = 10.0  # for the step in flight when the engine is stopped; one that takes longer hangs


class Build(Protocol):
    """What makes the engine: blocking, in a thread of its own."""

    def __call__(self, settings: Settings, *, progress: Callable[[str], None]) -> Built:
        """Load the model and lay out its cache, saying how it goes."""
        ...


def serve(settings: Settings, *, build: Build, console: Console, log: Log, tracing: Tracing | None = None) -> int:
    """Serve until a signal or a failure, and return the exit code.

    0 after a SIGTERM, SIGINT or SIGHUP, 1 where the port, the model or the engine failed. A second signal
    does not return: it ends the process with 128 and its number.
    """
    host, port = settings.server.host, settings.server.port
    try:
        listener = bind(host, port)
    except OSError as error:
        console.fault(f"tidemark: can't listen on {host} port {port}: {reason_of(error)}")
        return 1
    try:
        process = Process(settings, listener=listener, build=build, console=console, log=log, tracing=tracing)
    except StoreFailed as error:
        console.fault(f"tidemark: can't keep responses in {settings.server.store_path}: {error}")
        return 1
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        code = runner.run(process.run())
    if process.loads:
        leave_at_once(code)  # a thread inside torch can be neither cancelled nor finalized
    return code


def leave_at_once(code: int) -> NoReturn:
    """End the process without waiting for any thread."""
    with contextlib.suppress(OSError, ValueError):  # nobody reads them any more
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code)


class Process:
    """One life of the server: load, serve, drain, end."""

    def __init__(
        self,
        settings: Settings,
        *,
        listener: socket.socket,
        build: Build,
        console: Console,
        log: Log,
        tracing: Tracing | None,
    ) -> None:
        self._settings = settings
        self._listener = listener
        self._build = build
        self._console = console
        self._log = log
        self._tracing = tracing
        self._began = time.monotonic()
        self._service = Service(settings)
        app = create_app(settings, self._service, log=log, tracing=tracing)
        self._http = HttpServer(app, settings.server, log)
        self._loader: threading.Thread | None = None
        self._code = 0
        self._ending: asyncio.Future[None]  # of the loop that runs; done once a signal or a failure asks for the end

    @property
    def loads(self) -> bool:
        """Whether a model is being loaded still."""
        return self._loader is not None and self._loader.is_alive()

    async def run(self) -> int:
        """Live, and return the exit code."""
        loop = asyncio.get_running_loop()
        self._ending = loop.create_future()
        heard = once_for_a_terminal(self._on_signal)
        for number in endings():
            loop.add_signal_handler(number, heard, number)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._http.serve(sockets=[self._listener]))
                async with self._service.background.running():
                    seconds_left = await self._live(group)
                self._http.finish_within(max(seconds_left, LAST_WORDS_SECONDS))
        except* Exception as errors:  # noqa: BLE001  # the last one to know: say it, and end with an error
            self._log.failure("server_failed", error=errors)
            self._code = 1
        if self._tracing is not None:
            await self._tracing.close(LAST_WORDS_SECONDS)
        self._service.store.close()
        self._log.info("stopped", exit_code=self._code)
        return self._code

    async def _live(self, group: asyncio.TaskGroup) -> float:
        """Until nothing runs any more; what is left of the drain limit, in seconds, for the last answers."""
        engine = await self._load()
        if engine is None:
            return 0.0
        running = group.create_task(self._run_engine(engine))
        watching = group.create_task(tell_stalls(engine, self._log))
        await self._ending
        deadline = time.monotonic() + self._settings.server.drain_seconds
        await self._drain(engine, running)
        await self._stop(engine, running)
        self._service.lookout.close()
        watching.cancel()
        return 0.0 if self._service.failed else deadline - time.monotonic()

    # -- states -------------------------------------------------------------------------------

    async def _load(self) -> Engine | None:
        """The engine, or None where a failure or a signal came first."""
        self._log.info("loading", model=self._settings.model.path, url=url_of(self._listener))
        loading = self._start_loader()
        either: list[asyncio.Future[Built] | asyncio.Future[None]] = [loading, self._ending]
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        if not loading.done():
            return None
        try:
            built = loading.result()
        except Exception as error:  # noqa: BLE001  # whatever a model's files provoke, it can't be served
            self._refuse_model(error)
            return None
        self._service.attach(built)
        self._announce(built.engine.info)
        return built.engine

    async def _run_engine(self, engine: Engine) -> None:
        try:
            await engine.run()
        except Exception as error:  # noqa: BLE001  # it must not cancel the server, which has streams to end
            self._service.fail()
            self._log.failure("engine_died", error=error)
            self._end(1)

    async def _drain(self, engine: Engine, running: asyncio.Task[None]) -> None:
        """Let what runs finish, within the limit; new requests are refused meanwhile."""
        if running.done():
            return
        limit = self._settings.server.drain_seconds
        engine.drain()
        seen = engine.snapshot()
        self._log.info("draining", unfinished=seen.running + seen.waiting + seen.paused, limit_seconds=limit)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(limit), asyncio.TaskGroup() as group:
                drained = group.create_task(engine.drained())
                await asyncio.wait([drained, running], return_when=asyncio.FIRST_COMPLETED)
                drained.cancel()

    async def _stop(self, engine: Engine, running: asyncio.Task[None]) -> None:
        """End what still runs with an error event, and the engine's loop."""
        engine.stop()
        await asyncio.wait([running], timeout=LAST_STEP_SECONDS)
        if not running.done():
            self._log.failure("step_hangs", waited_seconds=LAST_STEP_SECONDS)
            leave_at_once(1)

    # -- what ends it -------------------------------------------------------------------------

    def _on_signal(self, number: int) -> None:
        name = signal.Signals(number).name
        if self._ending.done():
            self._log.info("ended_at_once", signal=name)
            leave_at_once(SIGNALLED + number)
        self._log.info("ending", signal=name)
        self._end(0)

    def _end(self, code: int) -> None:
        self._code = max(self._code, code)
        if not self._ending.done():
            self._ending.set_result(None)

    def _say(self, text: str) -> None:
        self._console.progress(f"tidemark: {text}")

    def _refuse_model(self, error: Exception) -> None:
        self._console.fault(load_failure(self._settings, error))
        self._log.debug("load_failed", error=error)
        self._end(1)

    def _announce(self, info: ModelInfo) -> None:
        seconds = time.monotonic() - self._began
        url = url_of(self._listener)
        self._console.line(f"tidemark: {describe(info)}, loaded in {seconds:.1f} s, {url}")
        self._log.info("serving", model=info.name, url=url, load_seconds=round(seconds, 3))

    def _start_loader(self) -> asyncio.Future[Built]:
        """Build in a daemon thread: unlike an executor's it does not keep the process from ending."""
        loop = asyncio.get_running_loop()
        loading: asyncio.Future[Built] = loop.create_future()

        def deliver(settle: Callable[[], None]) -> None:
            with contextlib.suppress(RuntimeError):  # the loop has closed: nobody waits any more
                loop.call_soon_threadsafe(lambda: None if loading.done() else settle())

        def load() -> None:
            try:
                with resting_collector():
                    built = self._build(self._settings, progress=self._say)
            except Exception as error:  # noqa: BLE001  # handed to the one who waits
                deliver(partial(loading.set_exception, error))
            else:
                deliver(partial(loading.set_result, built))

        self._loader = threading.Thread(target=load, name="load", daemon=True)
        self._loader.start()
        return loading


def load_failure(settings: Settings, error: Exception) -> str:
    """Why the model can't be served, on one line."""
    reason = str(error) if isinstance(error, EngineError) else f"{type(error).__name__}: {error}"
    return f"tidemark: can't serve {settings.model.path}: {' '.join(reason.split())}"


def describe(info: ModelInfo) -> str:
    """The model, and the layout and size of its cache, on one line."""
    return (
        f"{info.name} ({info.architecture}, {info.dtype}, context {info.context_length}) on {info.runs_on}; "
        f"cache: {info.cache.layout}, {', '.join(_sizes(info.cache))}"
        f"{f'; draft model: {info.draft_model.name}' if info.draft_model else ''}"
    )


def _sizes(cache: CacheInfo) -> Iterator[str]:
    """How much there is of what the cache has, and what all of it takes."""
    if cache.num_blocks:
        yield cache.dtype
        each = "x" if cache.blocks_a_step == 1 else f"({cache.blocks_a_step} for all groups) x"
        yield f"{cache.num_blocks} blocks {each} {cache.block_size} = {cache.num_positions} positions"
    if cache.waste >= LEAST_WASTE:
        yield f"{cache.waste:.1%} of their bytes unused"
    if cache.num_slots:
        yield f"{cache.num_slots} state slots x {ByteSize(cache.slot_bytes).human_readable()}"
    yield ByteSize(cache.num_bytes).human_readable()
