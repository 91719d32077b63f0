import io
import json
import pty

import pytest

from server.console import Console
from server.terminal.client import Client
from server.top import start as module
from server.top.start import start
from tests.server.terminal.scripted import answer, error, serving
from tests.server.top.sights import body


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ONCE_SECONDS", 0.0)


SNAPSHOT = answer(f"event: snapshot\ndata: {json.dumps(body(whole=True))}\n\n")


def started(url: str, *, once: bool = False, as_json: bool = False) -> tuple[int, str, str]:
    out, told = io.StringIO(), io.StringIO()
    code = start(Client(url), once=once, as_json=as_json, source=io.StringIO(), out=out, console=Console(told))
    return code, out.getvalue(), told.getvalue()


@pytest.mark.parametrize("once", [True, False])
def test_where_nobody_looks_one_snapshot_is_printed(once: bool) -> None:
    with serving(SNAPSHOT) as server:
        code, out, told = started(server.url, once=once)

    lines = out.splitlines()
    assert (code, told) == (0, "")
    assert lines[0].startswith("tiny  LlamaForCausalLM  ready  up 1 h 02 min  http://127.0.0.1:")
    assert max(map(len, lines)) == 120
    assert "\x1b" not in out


def test_a_program_gets_what_the_server_sent() -> None:
    with serving(SNAPSHOT) as server:
        code, out, _ = started(server.url, as_json=True)

    assert (code, json.loads(out)) == (0, body(whole=True))


def test_a_program_gets_ascii_whatever_a_server_sent() -> None:
    strange = body(whole=True, server="\ud800\x9b")
    with serving(answer(f"event: snapshot\ndata: {json.dumps(strange)}\n\n")) as server:
        _, out, _ = started(server.url, as_json=True)

    assert out.isascii()
    assert json.loads(out) == strange


def test_an_encoding_without_bars_gets_other_characters() -> None:
    out = io.TextIOWrapper(io.BytesIO(), encoding="latin-1", write_through=True)
    with serving(SNAPSHOT) as server:
        code = start(
            Client(server.url), once=True, as_json=False, source=io.StringIO(), out=out, console=Console(io.StringIO())
        )

    assert code == 0
    out.seek(0)
    assert "allocated 30" in out.read()


@pytest.mark.parametrize("as_json", [True, False])
def test_a_wrong_key_is_one_line(as_json: bool) -> None:
    with serving(error("no", status="401 X")) as server:
        code, out, told = started(server.url, as_json=as_json)

    assert (code, out) == (1, "")
    assert told == "tidemark: the server asks for a key: give --api-key or TIDEMARK_SERVER__API_KEYS\n"


def test_a_dumb_terminal_gets_one_snapshot(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")
    ours, theirs = pty.openpty()
    with serving(SNAPSHOT) as server, open(ours, "rb"), open(theirs, "r+b", buffering=0) as raw:
        terminal = io.TextIOWrapper(raw, encoding="utf-8", write_through=True)
        code = start(
            Client(server.url),
            once=False,
            as_json=False,
            source=terminal,
            out=terminal,
            console=Console(io.StringIO()),
        )

    assert code == 0
