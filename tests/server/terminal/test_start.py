import io

import pytest

from server.console import Console
from server.terminal.client import Client
from server.terminal.start import Wanted, start
from tests.server.terminal.scripted import MODELS, answer, error, events, serving


def talk(
    *answers: bytes, lines: bytes = b"hello\n", wanted: Wanted | None = None
) -> tuple[int, str, str, list[object]]:
    """The exit code, what was written and what went wrong, and the bodies of the questions."""
    out, errors = io.StringIO(), io.StringIO()
    source = io.TextIOWrapper(io.BytesIO(lines), encoding="utf-8")
    with serving(*answers) as server:
        code = start(Client(server.url), wanted or Wanted(), source=source, out=out, console=Console(errors))
    return code, out.getvalue(), errors.getvalue(), [asked.body for asked in server.asked if asked.body]


def test_the_first_model_that_is_served_is_asked() -> None:
    code, out, errors, [body] = talk(MODELS, answer(events("Hi")))

    assert (code, out, errors) == (0, "Hi\n", "")
    assert isinstance(body, dict)
    assert body["model"] == "org/tiny"


def test_what_is_wanted_is_asked_for() -> None:
    wanted = Wanted("gpt-4o", "be brief", {"temperature": "0.5"})

    *_, [body] = talk(MODELS, answer(events("Hi")), wanted=wanted)

    assert isinstance(body, dict)
    assert (body["model"], body["temperature"]) == ("gpt-4o", 0.5)
    assert body["messages"][0] == {"role": "system", "content": "be brief"}


@pytest.mark.parametrize(
    ("wanted", "why"),
    [(Wanted("nope"), "this server has org/tiny, gpt-4o"), (Wanted(settings={"seed": "x"}), "seed must be an integer")],
)
def test_what_can_not_be_is_told_before_the_first_question(wanted: Wanted, why: str) -> None:
    code, out, errors, asked = talk(MODELS, wanted=wanted)

    assert (code, out, asked) == (1, "", [])
    assert why in errors


def test_a_server_that_is_not_there_is_told() -> None:
    code, _, errors, _ = talk(b"")

    assert code == 1
    assert errors.startswith("tidemark: no server answers at http://127.0.0.1:")


def test_a_wrong_key_is_told() -> None:
    assert "--api-key" in talk(error("no", status="401 Unauthorized"))[2]


def test_bytes_that_are_no_text_are_asked_as_far_as_they_are() -> None:
    *_, [body] = talk(MODELS, answer(events("Hi")), lines=b"a\xffb")

    assert isinstance(body, dict)
    assert body["messages"][-1]["content"] == "a\ufffdb"


def test_a_source_without_bytes_is_read_as_it_is() -> None:
    out, errors = io.StringIO(), io.StringIO()

    with serving(MODELS, answer(events("Hi"))) as server:
        start(Client(server.url), Wanted(), source=io.StringIO("hello"), out=out, console=Console(errors))

    assert out.getvalue() == "Hi\n"
