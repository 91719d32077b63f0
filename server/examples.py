"""Examples: bodies that answer 200, as the description of the surface and its page show them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

JsonObject = dict[str, object]

_QUESTION = ({"role": "user", "content": "What is a tide?"},)
_TIDE = {
    "name": "get_tide",
    "description": "When the tide is high",
    "parameters": {
        "type": "object",
        "properties": {"port": {"type": "string", "maxLength": 20}},
        "required": ["port"],
        "additionalProperties": False,
    },
}
_BRIEF: JsonObject = {"max_tokens": 16, "temperature": 0}


@dataclass(frozen=True, slots=True)
class Example:
    """One body of an endpoint, without the model that it names."""

    title: str
    body: Mapping[str, object]


EXAMPLES: Mapping[str, Sequence[Example]] = {
    "/v1/chat/completions": (
        Example("a whole answer", {"messages": _QUESTION, **_BRIEF}),
        Example(
            "a stream that ends with its usage",
            {"messages": _QUESTION, **_BRIEF, "stream": True, "stream_options": {"include_usage": True}},
        ),
        Example(
            "two choices with log-probabilities",
            {"messages": _QUESTION, "max_tokens": 8, "n": 2, "seed": 1, "logprobs": True, "top_logprobs": 2},
        ),
        Example(
            "a call of a tool",
            {
                "messages": ({"role": "user", "content": "When is the tide high in Lisbon?"},),
                "tools": ({"type": "function", "function": _TIDE},),
                "tool_choice": {"type": "function", "function": {"name": "get_tide"}},
                "max_tokens": 60,
                "temperature": 0,
            },
        ),
    ),
    "/v1/completions": (
        Example("a text that goes on", {"prompt": "The tide comes in and", **_BRIEF}),
        Example("a stream", {"prompt": "The tide comes in and", **_BRIEF, "stream": True}),
        Example("the score of a text", {"prompt": "The tide comes in.", "max_tokens": 0, "echo": True, "logprobs": 1}),
    ),
    "/v1/embeddings": (
        Example("one text", {"input": "The tide comes in"}),
        Example(
            "two texts in base64", {"input": ["The tide comes in", "The tide goes out"], "encoding_format": "base64"}
        ),
        Example("the mean of all tokens, not scaled", {"input": "The tide", "pooling": "mean", "normalize": False}),
    ),
    "/v1/messages": (
        Example("a whole answer", {"messages": _QUESTION, **_BRIEF}),
        Example("a stream", {"system": "Be brief.", "messages": _QUESTION, **_BRIEF, "stream": True}),
    ),
    "/v1/messages/count_tokens": (Example("a conversation", {"system": "Be brief.", "messages": _QUESTION}),),
    "/v1/responses": (
        Example("a whole answer", {"input": "What is a tide?", "max_output_tokens": 16, "temperature": 0}),
        Example(
            "a stream",
            {
                "instructions": "Be brief.",
                "input": _QUESTION,
                "max_output_tokens": 16,
                "temperature": 0,
                "stream": True,
            },
        ),
    ),
    "/v1/responses/input_tokens": (Example("a conversation", {"instructions": "Be brief.", "input": _QUESTION}),),
    "/v1/tokenize": (
        Example("a text", {"prompt": "The tide leaves a mark"}),
        Example("a conversation", {"messages": _QUESTION, "return_token_strs": True}),
    ),
    "/v1/detokenize": (Example("three tokens", {"tokens": [40, 41, 42]}),),
}


def examples_of(path: str, *, model: str) -> dict[str, JsonObject]:
    """An endpoint's `examples` in OpenAPI's shape, asking for `model`."""
    return {
        example.title: {"summary": example.title, "value": {"model": model, **example.body}}
        for example in EXAMPLES.get(path, ())
    }
