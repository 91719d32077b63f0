import asyncio
import threading

import pytest

from engine.errors import CompilersBusy, GrammarRefused
from engine.grammar.compiler import NUM_THREADS, CompileLimits, Compiler
from engine.request import Grammar, Syntax
from tests.toy_grammar import DEAD_END, MAX_BYTES, NARROW, WIDE, WRONG, ToyCompiled, ToyLibrary

pytestmark = pytest.mark.anyio

LIMITS = CompileLimits(max_bytes=MAX_BYTES, max_seconds=10.0, max_kept=2)


class Slow(ToyLibrary):
    """Waits for `gate` before it compiles."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = threading.Event()
        self.begun = threading.Event()
        self.threads: set[str] = set()

    def compile(self, grammar: Grammar) -> ToyCompiled:
        self.threads.add(threading.current_thread().name)
        self.begun.set()
        self.gate.wait()
        return super().compile(grammar)


async def test_a_grammar_is_compiled_once_and_on_another_thread() -> None:
    library = Slow()
    library.gate.set()
    compiler = Compiler(lambda: library, LIMITS)

    assert await compiler.prepare(NARROW)
    assert not await compiler.prepare(NARROW)

    assert compiler.get(NARROW).start().mask()
    assert library.compiled == [NARROW]
    assert threading.current_thread().name not in library.threads


async def test_those_who_ask_for_the_same_at_once_wait_for_the_same() -> None:
    library = Slow()
    compiler = Compiler(lambda: library, LIMITS)

    async with asyncio.TaskGroup() as group:
        waiting = [group.create_task(compiler.prepare(NARROW)) for _ in range(3)]
        await asyncio.to_thread(library.begun.wait)
        library.gate.set()

    assert library.compiled == [NARROW]
    assert [task.result() for task in waiting] == [True, False, False]


def test_the_library_is_made_with_the_first_grammar_and_once() -> None:
    made: list[ToyLibrary] = []
    compiler = Compiler(lambda: made.append(ToyLibrary()) or made[-1], LIMITS)  # type: ignore[func-returns-value]
    assert not made

    compiler.get(NARROW)
    compiler.get(WIDE)

    assert len(made) == 1


async def test_what_was_asked_for_longest_ago_is_given_up_first() -> None:
    library = ToyLibrary()
    compiler = Compiler(lambda: library, LIMITS)
    for grammar in (NARROW, WIDE, NARROW, DEAD_END):
        await compiler.prepare(grammar)

    compiler.get(NARROW)
    assert library.compiled == [NARROW, WIDE, DEAD_END]
    compiler.get(WIDE)
    assert library.compiled == [NARROW, WIDE, DEAD_END, WIDE]


async def test_a_grammar_that_takes_too_long_is_refused_and_the_others_go_on() -> None:
    library = Slow()
    compiler = Compiler(lambda: library, CompileLimits(max_bytes=MAX_BYTES, max_seconds=0.01, max_kept=2))

    with pytest.raises(GrammarRefused, match=r"not ready within 0\.01 seconds"):
        await compiler.prepare(NARROW)

    library.gate.set()
    assert compiler.get(NARROW).start().mask()


async def test_a_grammar_that_was_not_begun_is_not_at_fault_and_is_not_compiled_later() -> None:
    library = Slow()
    compiler = Compiler(lambda: library, CompileLimits(max_bytes=MAX_BYTES, max_seconds=0.01, max_kept=2))
    others = [Grammar(Syntax.REGEX, "a" * length) for length in range(1, NUM_THREADS + 1)]
    for other in others:
        with pytest.raises(GrammarRefused):
            await compiler.prepare(other)

    asked = await asyncio.gather(*(compiler.prepare(NARROW) for _ in range(2)), return_exceptions=True)

    library.gate.set()
    await compiler.prepare(WIDE)
    assert [type(refusal) for refusal in asked] == [CompilersBusy, CompilersBusy]
    assert NARROW not in library.compiled


async def test_who_gives_up_waiting_is_told_nothing() -> None:
    library = Slow()
    compiler = Compiler(lambda: library, LIMITS)
    async with asyncio.TaskGroup() as group:
        waiting = group.create_task(compiler.prepare(NARROW))
        await asyncio.to_thread(library.begun.wait)
        waiting.cancel()
    library.gate.set()

    assert waiting.cancelled()


async def test_a_grammar_of_too_many_bytes_is_refused_with_the_numbers() -> None:
    compiler = Compiler(ToyLibrary, LIMITS)
    large = Grammar(Syntax.REGEX, "é" * MAX_BYTES)

    with pytest.raises(GrammarRefused, match=f"regular expression.*{2 * MAX_BYTES} bytes, at most {MAX_BYTES}"):
        await compiler.prepare(large)
    with pytest.raises(GrammarRefused, match="at most"):
        compiler.get(large)


async def test_a_wrong_grammar_is_refused_each_time() -> None:
    compiler = Compiler(ToyLibrary, LIMITS)

    for _ in range(2):
        with pytest.raises(GrammarRefused, match="it is wrong"):
            await compiler.prepare(WRONG)
    with pytest.raises(GrammarRefused, match="it is wrong"):
        compiler.get(WRONG)
