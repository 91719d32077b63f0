"""Trial: a grammar is tried in a process of its own first, so that what harms the library harms that process alone."""

import logging
import subprocess
import sys
import weakref
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from config.inherited import inherited
from engine.errors import GrammarRefused
from engine.grammar.grammars import end_ids_of
from engine.grammar.guidance import Guidance, GuidanceCompiled, guidance_for
from engine.grammar.translate import is_plain
from engine.request import Grammar
from engine.text import Tokenizer, Vocabulary

ROOT = Path(__file__).parents[2]  # where this package lies; what lies where the server was started is not ours
TRYING = "import sys; sys.path.append(sys.argv.pop(1)); from engine.grammar.trying import main; main()"
START_SECONDS = 60.0  # to import the library and read the tokens, on a machine that does much else

log = logging.getLogger(__name__)

Fault = tuple[str, str, str]  # a GrammarRefused's syntax, reason and part
Tokens = tuple[Vocabulary, frozenset[int]]  # what each spells, and which end an output


class Tried:
    """Implements `Library`: compiles what a process has compiled before. Each thread that asks has its own process.

    What is plain is not tried. A grammar that takes longer than `seconds` is refused.
    """

    def __init__(self, library: Guidance, tokens: Tokens, *, seconds: float) -> None:
        self._library = library
        self._tokens = tokens
        self._seconds = seconds
        self._idle: list[_Process] = []

    def compile(self, grammar: Grammar) -> GuidanceCompiled:
        """See `Library`."""
        if not _is_harmless(grammar):
            self._try(grammar)
        return self._library.compile(grammar)

    def _try(self, grammar: Grammar) -> None:
        process = self._take(grammar)
        try:
            fault = process.fault_of(grammar, self._seconds)
        except TimeoutError:
            reason = f"it was not ready within {self._seconds:g} seconds"
        except (EOFError, OSError):
            reason = "compiling it takes too much memory, or goes too deep"
        else:
            self._idle.append(process)
            if fault is not None:
                syntax, reason, part = fault
                raise GrammarRefused(syntax=syntax, reason=reason, part=part)
            return
        process.end()
        raise GrammarRefused(syntax=grammar.syntax.value, reason=reason)

    def _take(self, grammar: Grammar) -> "_Process":
        while self._idle:
            process = self._idle.pop()
            if process.lives:
                return process
            process.end()
        try:
            return _Process(self._tokens)
        except (EOFError, OSError):  # as where the machine's memory is used up
            log.exception("grammar_trial_failed")
            raise GrammarRefused(syntax=grammar.syntax.value, reason="no process could be started to try it") from None


class _Process:
    """One that tries grammars, each after the other."""

    def __init__(self, tokens: Tokens) -> None:
        self._connection, theirs = Pipe()
        with theirs:
            descriptor = theirs.fileno()
            self._process = subprocess.Popen(  # noqa: S603  # this interpreter, and a module of ours
                [sys.executable, "-P", "-c", TRYING, str(ROOT), str(descriptor)],
                pass_fds=(descriptor,),
                env=inherited(),  # it runs what a client wrote, and no key is any of its business
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,  # the library's last words may be the client's
                start_new_session=True,  # the terminal's interrupt is not for it
            )
        self.end = weakref.finalize(self, _end, self._process, self._connection)  # whatever it does
        self._connection.send(tokens)
        _received(self._connection, START_SECONDS)

    @property
    def lives(self) -> bool:
        """Whether it can be asked."""
        return self._process.poll() is None

    def fault_of(self, grammar: Grammar, seconds: float) -> Fault | None:
        """What it finds. Raises TimeoutError, and EOFError or OSError where it ends over it."""
        self._connection.send((grammar, seconds))
        fault: Fault | None = _received(self._connection, seconds)
        return fault


def _end(process: subprocess.Popen[bytes], connection: Connection) -> None:
    connection.close()
    process.kill()
    process.wait()


def _received(connection: Connection, seconds: float) -> Any:
    if not connection.poll(seconds):
        raise TimeoutError
    return connection.recv()


def _is_harmless(grammar: Grammar) -> bool:
    try:
        return is_plain(grammar)
    except (ValueError, RecursionError):
        return False


def tried_for(tokenizer: Tokenizer, *, seconds: float) -> Tried:
    """The library for a model's tokenizer; takes a moment."""
    return Tried(guidance_for(tokenizer), (tokenizer.vocabulary, end_ids_of(tokenizer)), seconds=seconds)
