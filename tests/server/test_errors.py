import pytest
from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request

from engine.errors import (
    ChatTemplateFailed,
    CompilersBusy,
    ContextTooLong,
    Draining,
    EmptyPrompt,
    EngineError,
    EngineStopped,
    GrammarFailed,
    NoChatTemplate,
    QueueFull,
    SlowReader,
    StepFailed,
    UnknownToken,
    VariableReserved,
)
from server.errors import MAX_MESSAGE_CHARACTERS, ApiError, blaming, from_engine, install_error_handlers, unsupported
from tests.server.asgi import client_of


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (EmptyPrompt(), 400, None),
        (UnknownToken(field="prompt", token=7, vocabulary_size=5), 400, None),
        (ContextTooLong(prompt_tokens=65, limit=64), 400, "context_length_exceeded"),
        (ChatTemplateFailed("roles must alternate"), 400, None),
        (NoChatTemplate(), 400, None),
        (VariableReserved("tokenize"), 400, None),
        (QueueFull(waiting=8, limit=8, retry_after_seconds=3), 429, "rate_limit_exceeded"),
        (CompilersBusy(seconds=10.0), 503, "compilers_busy"),
        (SlowReader(limit_seconds=60), 408, "slow_reader"),
        (Draining(), 503, "draining"),
        (EngineStopped(), 503, "engine_stopped"),
        (StepFailed(request_id="r", cause="CUDA error"), 500, "step_failed"),
        (EngineError("anything else"), 500, None),
    ],
)
def test_each_error_of_the_engine_has_its_status_and_code(error: EngineError, status: int, code: str | None) -> None:
    answer = from_engine(error)

    assert (answer.status, answer.body["code"]) == (status, code)
    assert set(answer.body) == {"message", "type", "param", "code"}


def subclasses(kind: type[EngineError]) -> list[type[EngineError]]:
    return [kind, *(below for child in kind.__subclasses__() for below in subclasses(child))]


@pytest.mark.parametrize("kind", subclasses(EngineError))
def test_every_class_of_the_engines_tree_has_an_answer(kind: type[EngineError]) -> None:
    error = kind.__new__(kind)  # without its numbers, which do not matter here
    if isinstance(error, QueueFull):
        error.retry_after_seconds = 1
    if isinstance(error, UnknownToken):
        error.field = "prompt"
    if isinstance(error, VariableReserved):
        error.name = "tokenize"
    if isinstance(error, GrammarFailed):
        error.name = ""

    assert from_engine(error).status in (400, 408, 429, 500, 503)


def test_an_overflow_names_the_field_and_both_numbers() -> None:
    answer = from_engine(ContextTooLong(prompt_tokens=65, limit=64), param="messages")

    assert answer.body["param"] == "messages"
    assert "65" in str(answer)
    assert "64" in str(answer)


def test_an_unknown_token_names_its_own_field() -> None:
    biased = UnknownToken(field="logit_bias", token=7, vocabulary_size=5)
    prompted = UnknownToken(field="prompt", token=7, vocabulary_size=5)

    assert from_engine(biased, param="messages").body["param"] == "logit_bias"
    assert from_engine(prompted, param="prompt").body["param"] == "prompt"


def test_a_reserved_variable_is_named_where_the_client_wrote_it() -> None:
    assert from_engine(VariableReserved("tokenize"), param="messages").body["param"] == "chat_template_kwargs.tokenize"


def test_a_grammar_that_failed_names_the_field_that_asked_for_it() -> None:
    named = from_engine(GrammarFailed(name="guided_regex", reason="too many states"), param="messages")
    nameless = from_engine(GrammarFailed(name="", reason="too many states"), param="messages")

    assert (named.body["code"], named.body["param"]) == ("grammar_failed", "guided_regex")
    assert named.body["message"] == "guided_regex: nothing may follow what was said: too many states"
    assert nameless.body["param"] is None


def test_what_passes_says_when_to_come_back() -> None:
    full = from_engine(QueueFull(waiting=8, limit=8, retry_after_seconds=3))

    assert full.headers == {"retry-after": "3"}
    assert int(from_engine(Draining()).headers["retry-after"]) > 0
    assert from_engine(EmptyPrompt()).headers == {}


def test_what_a_step_raised_stays_in_the_log() -> None:
    answer = from_engine(StepFailed(request_id="r", cause="secret path"))

    assert "secret" not in str(answer.envelope)


def test_a_long_message_is_cut() -> None:
    answer = from_engine(ChatTemplateFailed("x" * 1_000_000))

    assert len(answer.body["message"]) == MAX_MESSAGE_CHARACTERS + 1


def test_a_prompt_is_called_what_its_field_is_called() -> None:
    with pytest.raises(ApiError) as caught, blaming("input", prompt="input"):
        raise UnknownToken(field="prompt", token=7, vocabulary_size=5)

    assert caught.value.body["message"] == "input holds token id 7, the vocabulary has ids 0 to 4"
    assert caught.value.body["param"] == "input"


def test_blaming_leaves_other_errors_alone() -> None:
    with pytest.raises(ApiError) as caught, blaming("prompt"):
        raise EmptyPrompt

    with pytest.raises(ZeroDivisionError), blaming("prompt"):
        raise ZeroDivisionError

    assert caught.value.body["param"] == "prompt"


def app() -> FastAPI:
    app = FastAPI()
    install_error_handlers(app)

    @app.get("/raise/{what}")
    async def fail(_request: Request, what: str) -> None:
        raise {
            "api": unsupported("tools", "not here"),
            "engine": QueueFull(waiting=1, limit=1, retry_after_seconds=2),
            "http": HTTPException(418, headers={"x-kept": "yes"}),
            "gone": ClientDisconnect(),
        }[what]

    return app


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("path", "status", "code"),
    [
        ("/raise/api", 400, "unsupported_parameter"),
        ("/raise/engine", 429, "rate_limit_exceeded"),
        ("/raise/http", 418, None),
        ("/nowhere", 404, "not_found"),
    ],
)
async def test_whatever_is_raised_is_answered_in_the_envelope(path: str, status: int, code: str | None) -> None:
    async with client_of(app()) as client:
        answer = await client.get(path)

    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/json"
    assert set(answer.json()["error"]) == {"message", "type", "param", "code"}
    assert answer.json()["error"]["code"] == code


@pytest.mark.anyio
async def test_headers_of_an_error_are_kept() -> None:
    async with client_of(app()) as client:
        wrong_method = await client.delete("/raise/api")
        teapot = await client.get("/raise/http")
        full = await client.get("/raise/engine")

    assert (wrong_method.status_code, wrong_method.headers["allow"]) == (405, "GET, HEAD")
    assert wrong_method.json()["error"]["code"] == "method_not_allowed"
    assert teapot.headers["x-kept"] == "yes"
    assert full.headers["retry-after"] == "2"


@pytest.mark.anyio
async def test_a_client_that_left_is_no_error_of_the_server() -> None:
    async with client_of(app()) as client:
        answer = await client.get("/raise/gone")

    assert answer.status_code == 499
