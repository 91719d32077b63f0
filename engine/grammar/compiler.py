"""Compiler: grammars made ready on threads of their own, within limits, and kept."""

import asyncio
import threading
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

from engine.errors import CompilersBusy, GrammarRefused
from engine.grammar.matcher import Compiled, Library
from engine.request import Grammar

NUM_THREADS = 2  # compile at once: one that takes long never keeps all others waiting


@dataclass(frozen=True, slots=True)
class CompileLimits:
    """The most that one grammar may ask for, and how many are kept."""

    max_bytes: int
    max_seconds: float
    max_kept: int


class Compiler:
    """Compiles each grammar once, as long as it is kept; those that were asked for longest ago are given up first.

    `make_library` is called with the first grammar, on a thread: it takes a moment.
    """

    def __init__(self, make_library: Callable[[], Library], limits: CompileLimits) -> None:
        self._make_library = make_library
        self._limits = limits
        self._library: Library | None = None
        self._making = threading.Lock()
        self._kept: OrderedDict[Grammar, Compiled] = OrderedDict()
        self._compiling: dict[Grammar, Future[Compiled]] = {}
        self._threads = ThreadPoolExecutor(NUM_THREADS, "grammar-compile")

    async def prepare(self, grammar: Grammar) -> bool:
        """Compile it, unless it is kept; raise GrammarRefused where that can't be done, or not in time.

        CompilersBusy says that it was not even begun. False: there was nothing to do, or it is being compiled already,
        and was waited for.
        """
        if grammar in self._kept:
            self._kept.move_to_end(grammar)
            return False
        self._check_size(grammar)
        running = self._compiling.get(grammar)
        future = running or self._begin(grammar)
        ready = asyncio.wrap_future(future)
        ready.add_done_callback(_look_at)
        await asyncio.wait([ready], timeout=self._limits.max_seconds)
        if not ready.done() and not future.cancel():
            reason = f"it was not ready within {self._limits.max_seconds:g} seconds"
            raise GrammarRefused(syntax=grammar.syntax.value, reason=reason)
        if future.cancelled():  # it was not begun: by whoever waits for it and comes to the end of the time first
            raise CompilersBusy(seconds=self._limits.max_seconds)
        compiled = await ready
        self._keep(grammar, compiled)
        return running is None

    def get(self, grammar: Grammar) -> Compiled:
        """The compiled grammar; blocking where it is not kept. Raises GrammarRefused."""
        if grammar not in self._kept:
            self._check_size(grammar)
            self._keep(grammar, self._compile(grammar))
        return self._kept[grammar]

    def _check_size(self, grammar: Grammar) -> None:
        size, most = _size_bytes(grammar), self._limits.max_bytes
        if size > most:
            reason = f"it has {size} bytes, at most {most} are taken"
            raise GrammarRefused(syntax=grammar.syntax.value, reason=reason)

    def _begin(self, grammar: Grammar) -> Future[Compiled]:
        """Compile on a thread; who asks for the same meanwhile waits for the same."""
        future = self._compiling[grammar] = self._threads.submit(self._compile, grammar)
        future.add_done_callback(lambda _: self._compiling.pop(grammar, None))
        return future

    def _compile(self, grammar: Grammar) -> Compiled:
        with self._making:
            if self._library is None:
                self._library = self._make_library()
        return self._library.compile(grammar)

    def _keep(self, grammar: Grammar, compiled: Compiled) -> None:
        self._kept[grammar] = compiled
        self._kept.move_to_end(grammar)
        if len(self._kept) > self._limits.max_kept:
            self._kept.popitem(last=False)


def _look_at(ready: asyncio.Future[Compiled]) -> None:
    """Nobody may be left to see how it ended."""
    if not ready.cancelled():
        ready.exception()


def _size_bytes(grammar: Grammar) -> int:
    return len(grammar.source.encode()) + sum(_size_bytes(part) for _, part in grammar.parts)
