import pytest

from server.errors import ApiError
from server.neighbours import refuse_foreign
from server.wire.base import Wire
from server.wire.chat import ChatRequest
from server.wire.completions import CompletionRequest
from server.wire.embeddings import EmbeddingRequest
from server.wire.messages import CountRequest, MessagesRequest
from server.wire.responses import ResponsesRequest

SCHEMA = {"type": "json_schema", "json_schema": {"name": "x", "schema": {}}}


@pytest.mark.parametrize(
    ("model", "field", "value"),
    [
        (ChatRequest, "input", "a"),
        (ChatRequest, "prompt", "a"),
        (ChatRequest, "instructions", "Be brief."),
        (ChatRequest, "system", "Be brief."),
        (ChatRequest, "previous_response_id", "resp_1"),
        (ChatRequest, "max_output_tokens", 5),
        (ChatRequest, "stop_sequences", ["x"]),
        (ChatRequest, "text", {"format": {"type": "json_object"}}),
        (ChatRequest, "echo", True),
        (ChatRequest, "best_of", 2),
        (ChatRequest, "suffix", "x"),
        (CompletionRequest, "messages", [{"role": "user", "content": "a"}]),
        (CompletionRequest, "chat_template", "x"),
        (CompletionRequest, "chat_template_kwargs", {"a": 1}),
        (CompletionRequest, "tools", [{"type": "function", "function": {"name": "f"}}]),
        (CompletionRequest, "tool_choice", "required"),
        (CompletionRequest, "functions", [{"name": "f"}]),
        (CompletionRequest, "max_completion_tokens", 5),
        (CompletionRequest, "top_logprobs", 2),
        (CompletionRequest, "modalities", ["audio"]),
        (CompletionRequest, "web_search_options", {}),
        (CompletionRequest, "continue_final_message", True),
        (EmbeddingRequest, "max_tokens", 5),
        (EmbeddingRequest, "n", 2),
        (EmbeddingRequest, "chat_template", "x"),
        (EmbeddingRequest, "response_format", SCHEMA),
        (MessagesRequest, "stop", "x"),
        (MessagesRequest, "n", 2),
        (MessagesRequest, "response_format", SCHEMA),
        (MessagesRequest, "cache_salt", "s"),
        (MessagesRequest, "max_completion_tokens", 5),
        (ResponsesRequest, "messages", [{"role": "user", "content": "a"}]),
        (ResponsesRequest, "max_tokens", 5),
        (ResponsesRequest, "max_completion_tokens", 5),
        (ResponsesRequest, "response_format", SCHEMA),
        (ResponsesRequest, "structured_outputs", {"regex": "a"}),
        (ResponsesRequest, "guided_choice", ["a"]),
        (ResponsesRequest, "n", 2),
        (ResponsesRequest, "logprobs", True),
    ],
)
def test_a_field_of_another_endpoint_is_refused_by_its_name(model: type[Wire], field: str, value: object) -> None:
    with pytest.raises(ApiError) as refused:
        refuse_foreign({"foo": 1, field: value}, model)

    body = refused.value.body
    assert (refused.value.status, body["code"], body["param"]) == (400, "unsupported_parameter", field)


@pytest.mark.parametrize("value", [None, False, "", []])
@pytest.mark.parametrize("field", ["tools", "messages", "chat_template", "functions", "audio", "input"])
def test_one_that_asks_for_nothing_is_passed_over(field: str, value: object) -> None:
    refuse_foreign(
        {field: value, "modalities": ["text"], "tool_choice": "none", "function_call": "auto"}, CompletionRequest
    )
    refuse_foreign({"n": 1, "best_of": 1, "temperature": 0}, EmbeddingRequest)


@pytest.mark.parametrize(
    "model", [ChatRequest, CompletionRequest, EmbeddingRequest, MessagesRequest, ResponsesRequest, CountRequest]
)
def test_what_no_endpoint_knows_or_what_changes_no_answer_is_passed_over(model: type[Wire]) -> None:
    refuse_foreign(
        {
            **{"foo": 1, "user": "u", "metadata": {"a": "b"}, "store": True, "service_tier": "auto", "priority": 3},
            **{"prompt_cache_key": "k", "thinking": {"type": "enabled"}, "reasoning_effort": "high"},
            **{"prediction": {"type": "content", "content": "a"}, "parallel_tool_calls": True},
        },
        model,
    )


@pytest.mark.parametrize("model", [ChatRequest, CompletionRequest, EmbeddingRequest, MessagesRequest, ResponsesRequest])
def test_a_body_s_own_fields_are_never_foreign(model: type[Wire]) -> None:
    refuse_foreign({field.alias or name: {"a": 1} for name, field in model.model_fields.items()}, model)
