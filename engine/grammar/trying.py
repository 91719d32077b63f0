"""What a process that tries grammars does (`engine/grammar/trial.py`). It may crash, run on, or fill up.

Its connection gives it the tokens first, which it answers with None once it is ready, then grammars, each with the
seconds that it may take. It answers with what is wrong with one, or None, and ends with the connection.
"""

import math
import resource
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path

from engine.errors import GrammarRefused
from engine.grammar.guidance import Guidance, guidance_of
from engine.grammar.trial import Fault
from engine.request import Grammar

MAX_BYTES = 1 << 29  # of addresses: the interpreter and 49,152 tokens take a quarter, 262,144 take two fifths
FIRST_TO_END = Path("/proc/self/oom_score_adj")  # where memory runs out it is not the server that ends
STACK_BYTES = 3 << 19  # less than any thread has that compiles the grammar later, so what fits here fits there


def main() -> None:
    """Answer in a thread of a small stack until the connection ends."""
    resource.setrlimit(resource.RLIMIT_AS, (MAX_BYTES, MAX_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with suppress(OSError):
        FIRST_TO_END.write_text("1000")
    connection = Connection(int(sys.argv[1]))
    threading.stack_size(STACK_BYTES)
    thread = threading.Thread(target=answer, args=(connection, _limit_seconds))
    thread.start()
    thread.join()


def answer(connection: Connection, limit: Callable[[float], None]) -> None:
    """Try each grammar that comes."""
    with connection:
        try:
            library = guidance_of(*connection.recv())
            connection.send(None)
            while True:
                grammar, seconds = connection.recv()
                limit(seconds)
                connection.send(fault_of(library, grammar))
        except (EOFError, OSError):
            return


def fault_of(library: Guidance, grammar: Grammar) -> Fault | None:
    """What is wrong with a grammar."""
    try:
        library.compile(grammar).start()
    except GrammarRefused as refusal:
        return refusal.syntax, refusal.reason, refusal.part
    return None


def _limit_seconds(seconds: float) -> None:
    """Let the system end this process where a grammar takes much longer, though nobody is there to do it."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    _, most = resource.getrlimit(resource.RLIMIT_CPU)
    resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(used.ru_utime + used.ru_stime + seconds) + 1, most))
