import pytest

from config.settings import ServerSettings
from engine.errors import ChatTemplateFailed, PromptError
from server.dialect import dialect_of
from server.errors import ApiError
from server.prompt import FAR_TOO_LONG, STRETCH, chat_prompt, completion_prompts, template_message, text_prompt
from server.wire.chat import Message, TemplateFields
from server.wire.completions import CompletionRequest
from tests.fakes import BOS, TEMPLATE, VOCABULARY, FakeTokenizer

DIALECT = dialect_of(TEMPLATE, ServerSettings(), VOCABULARY)


def template(**fields: object) -> dict[str, object]:
    return template_message(Message.model_validate(fields))


def call(arguments: str | None, **fields: object) -> object:
    """The arguments as the template sees them."""
    message = template(role="assistant", tool_calls=[{"function": {"name": "f", "arguments": arguments}, **fields}])
    calls = message["tool_calls"]
    assert isinstance(calls, list)
    return calls[0]["function"]["arguments"]


def test_a_developer_is_the_system() -> None:
    assert template(role="developer", content="x") == {"role": "system", "content": "x"}


def test_text_parts_are_the_text_that_they_join_to() -> None:
    parts = [{"type": "text", "text": "a "}, {"type": "text", "text": "b"}]

    assert template(role="user", content=parts) == template(role="user", content="a b")


@pytest.mark.parametrize("content", [{}, {"content": None}, {"content": ""}, {"content": []}])
def test_an_assistant_that_says_nothing_has_empty_text(content: dict[str, object]) -> None:
    message = template(
        role="assistant", tool_calls=[{"id": "1", "function": {"name": "f", "arguments": "{}"}}], **content
    )

    assert message["content"] == ""


def test_a_refusal_is_what_the_assistant_said() -> None:
    assert template(role="assistant", content=[{"type": "refusal", "refusal": "no"}])["content"] == "no"


def test_a_refusal_beside_the_content_is_what_the_assistant_said_too() -> None:
    assert template(role="assistant", content=None, refusal="no")["content"] == "no"


def test_no_key_is_null() -> None:
    nothing = dict.fromkeys(("name", "tool_calls", "tool_call_id", "refusal", "function_call", "audio"))
    message = template(role="assistant", content=None, **nothing)

    assert message == {"role": "assistant", "content": ""}


def test_a_call_and_its_answer_have_every_key_that_templates_read() -> None:
    asked = template(role="assistant", tool_calls=[{"function": {"name": "f", "arguments": '{"a": 1}'}}])
    answered = template(role="tool", content="1")

    assert asked["tool_calls"] == [{"id": "", "type": "function", "function": {"name": "f", "arguments": {"a": 1}}}]
    assert answered == {"role": "tool", "content": "1", "tool_call_id": ""}


def test_ids_that_a_template_would_refuse_become_such_as_it_takes() -> None:
    def ids(id: str) -> tuple[object, object]:
        fields = {"role": "assistant", "tool_calls": [{"id": id, "function": {"name": "f"}}]}
        called = template_message(Message.model_validate(fields), short_ids=True)["tool_calls"]
        answered = template_message(Message(role="tool", content="1", tool_call_id=id), short_ids=True)
        assert isinstance(called, list)
        return called[0]["id"], answered["tool_call_id"]

    assert ids("abcdefgh1") == ("abcdefgh1", "abcdefgh1")
    long, same = ids("call_0123456789")
    assert long == same != ids("call_0123456780")[0]
    assert len(str(long)) == 9
    assert str(long).isalnum()


@pytest.mark.parametrize("text", ["[]", "{bad", "5", '"x"', "null", "NaN", "{" * 2_000, '{"a":' * 70 + "1" + "}" * 70])
def test_arguments_that_are_no_object_stay_text(text: str) -> None:
    assert call(text) == text


@pytest.mark.parametrize("arguments", ["", None, "{}"])
def test_no_arguments_are_none(arguments: str | None) -> None:
    assert call(arguments) == {}


@pytest.mark.anyio
async def test_any_failure_of_the_tokenizer_names_the_field_that_held_the_text() -> None:
    tokenizer = FakeTokenizer(failure=PromptError("broken"))

    with pytest.raises(ApiError) as chat:
        await chat_prompt(tokenizer, [Message(role="user", content="x")], TemplateFields(), DIALECT)
    with pytest.raises(ApiError) as text:
        await text_prompt(tokenizer, "x", add_special=True)

    assert (chat.value.status, chat.value.body["param"]) == (400, "messages")
    assert (text.value.status, text.value.body["param"]) == (400, "prompt")


@pytest.mark.anyio
async def test_the_empty_text_starts_from_bos_if_there_is_one() -> None:
    assert (await text_prompt(FakeTokenizer(), "", add_special=False)).tokens == (BOS,)
    assert (await text_prompt(FakeTokenizer(bos_id=None), "", add_special=True)).tokens == ()


def test_a_name_reaches_the_template() -> None:
    assert template(role="user", content="x", name="bob")["name"] == "bob"


class RecordingTokenizer(FakeTokenizer):
    """Remembers how long the texts were that it was given."""

    def __init__(self) -> None:
        super().__init__()
        self.lengths: list[int] = []

    def encode(self, text: str, *, add_special_tokens: bool) -> list[int]:
        self.lengths.append(len(text))
        return super().encode(text, add_special_tokens=add_special_tokens)


FAR = "x" * (10 * STRETCH)


@pytest.mark.anyio
async def test_a_text_of_many_contexts_is_refused_after_one_stretch() -> None:
    tokenizer = RecordingTokenizer()

    with pytest.raises(ApiError, match="at least 200 tokens and the context holds 100") as refused:
        await completion_prompts(tokenizer, CompletionRequest(model="m", prompt=["a", FAR]), context=100)

    assert refused.value.status == 400
    assert refused.value.body["code"] == "context_length_exceeded"
    assert refused.value.body["param"] == "prompt"
    assert tokenizer.lengths == [STRETCH]


@pytest.mark.anyio
@pytest.mark.parametrize(
    "message",
    [
        {"role": "user", "content": FAR},
        {"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": FAR}}]},
    ],
)
async def test_a_conversation_of_many_contexts_is_refused_before_the_template(message: dict[str, object]) -> None:
    tokenizer = RecordingTokenizer()

    with pytest.raises(ApiError, match="at least 200 tokens") as refused:
        await chat_prompt(tokenizer, [Message.model_validate(message)], TemplateFields(), DIALECT, context=100)

    assert refused.value.body["param"] == "messages"
    assert tokenizer.lengths == [STRETCH]
    assert not tokenizer.calls


@pytest.mark.anyio
async def test_variables_of_many_contexts_are_refused_before_the_template() -> None:
    tokenizer = RecordingTokenizer()
    message = Message(role="user", content="x")

    with pytest.raises(ApiError, match="at least 200 tokens"):
        await chat_prompt(tokenizer, [message], TemplateFields(chat_template_kwargs={"a": FAR}), DIALECT, context=100)

    assert not tokenizer.calls


class ParticularTokenizer(FakeTokenizer):
    """Its template fails on a variable of that name."""

    def __init__(self, name: str | None) -> None:
        super().__init__()
        self.name = name

    def encode_chat(
        self,
        messages: list[dict[str, object]],
        *,
        add_generation_prompt: bool,
        continue_final_message: bool,
        template_kwargs: dict[str, object],
    ) -> list[int]:
        if self.name is None or self.name in template_kwargs:
            raise ChatTemplateFailed("no")
        return super().encode_chat(
            messages,
            add_generation_prompt=add_generation_prompt,
            continue_final_message=continue_final_message,
            template_kwargs=template_kwargs,
        )


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("name", "given", "param"),
    [("a", {"a": 1}, "chat_template_kwargs"), (None, {"a": 1}, "messages"), (None, None, "messages")],
)
async def test_a_template_that_fails_on_the_clients_own_variables_alone_names_them(
    name: str | None, given: dict[str, object] | None, param: str
) -> None:
    tokenizer, fields = ParticularTokenizer(name), TemplateFields(chat_template_kwargs=given)

    with pytest.raises(ApiError) as refused:
        await chat_prompt(tokenizer, [Message(role="user", content="x")], fields, DIALECT)

    assert (refused.value.status, refused.value.body["param"]) == (400, param)


@pytest.mark.anyio
async def test_a_long_text_that_may_fit_is_encoded_whole() -> None:
    tokenizer = RecordingTokenizer()
    text = "x" * (STRETCH + 1)

    prompts = await completion_prompts(
        tokenizer, CompletionRequest(model="m", prompt=text), context=len(text) // FAR_TOO_LONG + 1
    )

    assert [len(prompt.tokens) for prompt in prompts] == [len(text)]
