"""Commands: tidemark serve, chat, trace, top, doctor and version, each from parsed arguments to an exit code."""

import argparse
import contextlib
import os
import re
import shutil
import signal
import sys
from collections.abc import Sequence
from difflib import get_close_matches
from functools import partial
from types import FrameType
from typing import NoReturn

from config.client import NO_MODEL, add_client_flags, resolve_client
from config.errors import ConfigError
from config.flags import add_flags, add_model
from config.load import Loaded, resolve
from config.render import render
from engine.build import Built, build
from engine.errors import EngineError
from server.console import Console
from server.logs import open_log, open_output
from server.serve import leave_at_once, load_failure, serve
from server.terminal.client import Client
from server.terminal.settings import SETTINGS, read_setting
from server.terminal.start import Wanted, start
from server.trace import MAX_PROMPTS, TraceOptions, trace
from server.tracing import tracing
from server.version import VERSION

CONFIG_FAILED = 2  # as argparse's own
LIKE = 0.7  # of two flags: "threads" is like "num-threads", "ctx-size" not like "block-size"


def run(argv: Sequence[str] | None) -> int:
    """Run the command that `argv` names (None: the process's own) and return its exit code."""
    arguments, strange = _parser().parse_known_args(argv)
    if strange:
        _refuse(strange, arguments.parser)
    console = Console(sys.stderr)
    try:
        return int(arguments.command(arguments, console))
    except ConfigError as error:
        for line in str(error).splitlines():
            console.line(f"tidemark: {line}")
        return CONFIG_FAILED


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "tidemark", description="Serve an open language model over HTTP, as OpenAI's API does.", allow_abbrev=False
    )
    parser.add_argument("--version", action="version", version=f"tidemark {VERSION}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    _add_serve(commands.add_parser("serve", help="serve a model", description=_SERVE, epilog=_SOURCES))
    _add_chat(commands.add_parser("chat", help="talk to a running server", description=_CHAT))
    _add_trace(commands.add_parser("trace", help="show each step of a prompt", description=_TRACE, epilog=_SOURCES))
    _add_top(commands.add_parser("top", help="watch a running server", description=_TOP))
    _add_doctor(commands.add_parser("doctor", help="look at this machine", description=_DOCTOR, epilog=_SOURCES))
    commands.add_parser("version", help="print the version").set_defaults(command=_version)
    for each in commands.choices.values():
        each.set_defaults(parser=each)
    return parser


def _refuse(strange: Sequence[str], parser: argparse.ArgumentParser) -> NoReturn:
    """End with the usage of the command that was asked, and the flag of its that the first stranger is like."""
    flags = re.findall(r"--([\w-]+)", parser.format_help())
    like = get_close_matches(strange[0].partition("=")[0].lstrip("-"), flags, n=1, cutoff=LIKE)
    parser.error(f"unrecognized arguments: {' '.join(strange)}{f'; did you mean --{like[0]}?' if like else ''}")


_SERVE = (
    "Serve MODEL until a signal. The first SIGTERM, SIGINT or SIGHUP lets running requests finish (exit 0), a second "
    "ends the process at once (exit 128 + the signal's number). Exit 1: the port, the model or the engine failed."
)
_CHAT = (
    "Talk to a running server. Lines that begin with a slash are commands: /help lists them. Where standard input is "
    "no terminal each line is a question, and only the answers are written. Exit 1: no server answers, or a question "
    "failed."
)
_TRACE = (
    "Run PROMPT through the engine and print each step: the chunk of positions, the four marks, the tokens "
    "chosen, the blocks with their owners, and what became of drafts."
)
_TOP = (
    "Watch a running server: its cache, its marks, its requests. Keys: q leaves, p pauses, s sorts, up and down choose "
    "a request, enter opens it, m shows the map of the cache, escape goes back. Where standard "
    "output is no terminal one snapshot is printed. Exit 1: no server answers, or it asks for another key."
)
_DOCTOR = (
    "Look at this machine, the installation, the port and MODEL, and say what to change. Nothing is fetched or served. "
    "Exit 1: something would prevent serving."
)
_SOURCES = "Every setting may also come from a TOML file or the environment; see --print-config."


def _add_serve(parser: argparse.ArgumentParser) -> None:
    parser.usage = "tidemark serve [MODEL] [options]"  # argparse's own would list every setting
    add_model(parser)
    add_flags(parser)
    parser.set_defaults(command=_serve)


def _add_chat(parser: argparse.ArgumentParser) -> None:
    parser.usage = "tidemark chat [options]"
    add_client_flags(parser)
    parser.add_argument("--model", metavar="NAME", help="the name to ask for (default the first that is served)")
    parser.add_argument("--system", metavar="TEXT", default="", help="the system text")
    for name, number in SETTINGS.items():
        parser.add_argument(
            "--" + name.replace("_", "-"), dest=f"set.{name}", type=partial(_setting, name),
            metavar="TEXT" if number is None else "NUMBER", help="as in the API" if number is None else number.allowed,
        )  # fmt: skip
    parser.set_defaults(command=_chat)


def _add_trace(parser: argparse.ArgumentParser) -> None:
    parser.usage = "tidemark trace PROMPT [options]"
    parser.add_argument("prompt", metavar="PROMPT", help="the user's message")
    parser.add_argument("--json", action="store_true", help="print one JSON object a step and sequence")
    parser.add_argument("--max-tokens", type=_count, default=16, metavar="N", help="most tokens to choose (default 16)")
    parser.add_argument("--with", dest="others", action="append", default=[], metavar="PROMPT",
                        help="another prompt that runs beside the first; may be repeated")  # fmt: skip
    parser.add_argument("--repeat", type=_count, default=1, metavar="N", help="run everything N times (default 1)")
    parser.add_argument(
        "--prediction", default="", metavar="TEXT", help="a guess at the answer, to see drafts verified"
    )
    parser.add_argument("--raw", action="store_true", help="take prompts as they are, without the chat template")
    add_flags(parser)
    parser.set_defaults(command=_trace)


def _add_top(parser: argparse.ArgumentParser) -> None:
    parser.usage = "tidemark top [options]"
    add_client_flags(parser)
    parser.add_argument("--once", action="store_true", help="print one snapshot as text")
    parser.add_argument("--json", action="store_true", help="print one snapshot as the server sends it")
    parser.set_defaults(command=_top)


def _add_doctor(parser: argparse.ArgumentParser) -> None:
    parser.usage = "tidemark doctor [MODEL] [options]"
    add_model(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    add_flags(parser)
    parser.set_defaults(command=_doctor)


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be a number from 1, got {text!r}")
    return int(text)


def _setting(name: str, text: str) -> str:
    try:
        read_setting(name, text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{error}, got {text!r}") from None
    return text


def _serve(arguments: argparse.Namespace, console: Console) -> int:
    loaded = resolve(arguments)
    if loaded.print_config:
        return _print_config(loaded)
    console, log = open_output(loaded.settings.server, sys.stderr)
    traces = tracing(loaded.settings.server, log)
    return serve(loaded.settings, build=build, console=console, log=log, tracing=traces)


def _chat(arguments: argparse.Namespace, console: Console) -> int:
    client = _client(arguments)
    given = {name: getattr(arguments, f"set.{name}") for name in SETTINGS}
    settings = {name: text for name, text in given.items() if text is not None}
    wanted = Wanted(arguments.model, arguments.system, settings)
    return start(client, wanted, source=sys.stdin, out=sys.stdout, console=console)


def _client(arguments: argparse.Namespace) -> Client:
    address = resolve_client(arguments)
    try:
        return Client(address.url, address.key)
    except ValueError as error:
        raise ConfigError(f"--url: {error}") from None


def _top(arguments: argparse.Namespace, console: Console) -> int:
    from server.top import start as top  # noqa: PLC0415  # rich is imported where something is drawn

    client = _client(arguments)
    return top.start(
        client, once=arguments.once, as_json=arguments.json, source=sys.stdin, out=sys.stdout, console=console
    )


def _trace(arguments: argparse.Namespace, console: Console) -> int:
    loaded = resolve(arguments)
    if loaded.print_config:
        return _print_config(loaded)
    prompts = (arguments.prompt, *arguments.others)
    if len(prompts) > MAX_PROMPTS:
        raise ConfigError(f"--with: at most {MAX_PROMPTS} prompts run together, got {len(prompts)}")
    options = TraceOptions(
        prompts,
        arguments.max_tokens,
        repeat=arguments.repeat,
        raw=arguments.raw,
        as_json=arguments.json,
        prediction=arguments.prediction,
    )
    open_log(level=loaded.settings.server.log_level, stream=console, as_json=False)
    _end_at_once_on_interrupt()
    try:
        built = build(loaded.settings, progress=lambda text: console.progress(f"tidemark: {text}"))
    except Exception as error:  # noqa: BLE001  # whatever a model's files provoke, it can't be served
        console.line(load_failure(loaded.settings, error))
        return 1
    console.clear()
    return _show(built, options, console)


def _doctor(arguments: argparse.Namespace, console: Console) -> int:
    from server.doctor.examine import Probes, examine  # noqa: PLC0415  # `serve` starts without it
    from server.doctor.report import MAX_WIDTH, as_json, as_text, prevents  # noqa: PLC0415

    loaded = resolve(arguments, assumed=NO_MODEL)
    if loaded.print_config:
        return _print_config(loaded)
    open_log(level="error", stream=console, as_json=False)  # what the engine would warn of is told as a finding
    _end_at_once_on_interrupt()
    sections = examine(loaded.settings, lambda text: console.progress(f"tidemark: {text}"), Probes())
    console.clear()
    width = shutil.get_terminal_size((MAX_WIDTH, 0)).columns
    sys.stdout.write(as_json(sections) if arguments.json else as_text(sections, width=width))
    return 1 if prevents(sections) else 0


def _end_at_once_on_interrupt() -> None:
    """A KeyboardInterrupt may be lost where an import ignores exceptions; the exit of a handler is not."""

    def end(number: int, _frame: FrameType | None) -> None:
        with contextlib.suppress(RuntimeError):  # the interrupt came within a write to the same stream
            leave_at_once(128 + number)
        os._exit(128 + number)

    signal.signal(signal.SIGINT, end)


def _show(built: Built, options: TraceOptions, console: Console) -> int:
    code = 0
    try:
        trace(built, options, Console(sys.stdout).line)
    except* EngineError as errors:
        console.line(f"tidemark: {_first(errors)}")
        code = 1
    return code


def _first(error: BaseException) -> BaseException:
    return _first(error.exceptions[0]) if isinstance(error, BaseExceptionGroup) else error


def _print_config(loaded: Loaded) -> int:
    sys.stdout.write(render(loaded))
    return 0


def _version(_arguments: argparse.Namespace, _console: Console) -> int:
    sys.stdout.write(f"tidemark {VERSION}\n")
    return 0
