"""Start: find the server and the model, and talk."""

import importlib
import io
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TextIO

from server.console import Console
from server.terminal.answers import Answers
from server.terminal.chat import Chat
from server.terminal.client import ChatError, Client
from server.terminal.screen import Screen
from server.terminal.talk import Talk


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the command line asks for. `model` None is the first that is served; settings are text still."""

    model: str | None = None
    system: str = ""
    settings: Mapping[str, str] = field(default_factory=dict)


def start(client: Client, wanted: Wanted, *, source: TextIO, out: TextIO, console: Console) -> int:
    """Talk over `source` and `out`, and return the exit code."""
    is_terminal = source.isatty() and out.isatty()
    answers = Answers(client, clock=time.monotonic, pause=time.sleep)
    try:
        talk = _talk(answers, wanted, console)
    except ChatError as error:
        console.line(f"tidemark: {error}")
        return 1
    console.clear()
    screen = Screen(out, is_terminal=is_terminal)
    screen.note(f"{talk.model} at {client.url}; /help lists what there is, Ctrl-D leaves")
    return Chat(answers, talk, screen=screen, console=console, read=_reader(source, is_terminal=is_terminal)).run()


def _talk(answers: Answers, wanted: Wanted, console: Console) -> Talk:
    served = answers.models(waits=lambda: console.progress("tidemark: the server loads its model"))
    if wanted.model is not None and wanted.model not in served:
        raise ChatError(f"no such model; this server has {', '.join(served)}")
    talk = Talk(wanted.model or served[0], wanted.system)
    for name, text in wanted.settings.items():
        talk.set(name, text)
    return talk


def _reader(source: TextIO, *, is_terminal: bool) -> Callable[[str], str]:
    """What shows a prompt and gives a line: at a terminal with the keys of readline, from a pipe as it comes."""
    if is_terminal:
        with suppress(ImportError):
            importlib.import_module("readline")  # input() then edits lines, and goes back to earlier ones
        return input
    if isinstance(source, io.TextIOWrapper):
        source.reconfigure(errors="replace")

    def read(_prompt: str) -> str:
        line = source.readline()
        if not line:
            raise EOFError
        return line.rstrip("\n")

    return read
