"""The fields that chat and text completions share."""

from typing import Annotated, Literal

from pydantic import Field, PlainValidator
from pydantic_core import PydanticCustomError

from server.wire.base import Stop, Tokens, Wire

MAX_BIAS = 100
MAX_BIASES = 4096
MAX_STOP_TOKENS = 4096
_MAX_SHOWN_KEY = 20  # characters of a wrong key that its error repeats


class StreamOptions(Wire):
    """`stream_options`."""

    include_usage: bool | None = None


class ResponseFormat(Wire):
    """`response_format`."""

    type: Literal["text", "json_object", "json_schema"]


def _biases(value: object) -> dict[int, float]:
    """Token ids to biases, from an object whose keys are the ids as text."""
    if not isinstance(value, dict):
        raise PydanticCustomError("logit_bias", "must be an object of token ids and numbers")
    if len(value) > MAX_BIASES:
        raise PydanticCustomError("logit_bias", "holds {count} ids, at most {most}", _numbers(len(value), MAX_BIASES))
    return {_token_id(key): _bias(bias) for key, bias in value.items()}


def _numbers(count: int, most: int) -> dict[str, object]:
    return {"count": count, "most": most}


def _token_id(key: str) -> int:
    if key.isascii() and key.isdigit() and len(key) <= _MAX_SHOWN_KEY:
        return int(key)
    shown = f"{key!a:.{_MAX_SHOWN_KEY}}"
    raise PydanticCustomError("logit_bias", "has the key {key}, which is no token id", {"key": shown})


def _bias(value: object) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool) and -MAX_BIAS <= value <= MAX_BIAS:
        return float(value)
    raise PydanticCustomError("logit_bias", "must have numbers from -{most} to {most}", {"most": MAX_BIAS})


_BiasKey = Annotated[str, Field(pattern="^[0-9]{1,20}$")]
_BiasValue = Annotated[float, Field(ge=-MAX_BIAS, le=MAX_BIAS)]
LogitBias = Annotated[dict[int, float], PlainValidator(_biases, json_schema_input_type=dict[_BiasKey, _BiasValue])]


class SamplingFields(Wire):
    """How tokens are chosen, when a choice ends, and how the answer is sent. Null is the same as absent."""

    model: str
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    n: Annotated[int, Field(ge=1, le=128)] | None = None
    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    top_p: Annotated[float, Field(gt=0, le=1)] | None = None
    presence_penalty: Annotated[float, Field(ge=-2, le=2)] | None = None
    frequency_penalty: Annotated[float, Field(ge=-2, le=2)] | None = None
    seed: Annotated[int, Field(ge=-(2**63), lt=2**64)] | None = Field(default=None, description="any 64-bit integer")
    stop: Stop | None = None
    logit_bias: LogitBias | None = None

    top_k: Annotated[int, Field(ge=-1)] | None = Field(default=None, description="0 and -1 keep every token")
    min_p: Annotated[float, Field(ge=0, le=1)] | None = None
    repetition_penalty: Annotated[float, Field(ge=0.01, le=10)] | None = None
    min_tokens: Annotated[int, Field(ge=0)] | None = None
    ignore_eos: bool | None = None
    stop_token_ids: Annotated[Tokens, Field(max_length=MAX_STOP_TOKENS)] | None = None
    include_stop_str_in_output: bool | None = None
    skip_special_tokens: bool | None = None
    return_token_ids: bool | None = None
    cache_salt: str | None = Field(default=None, description="requests share cached prefixes within one salt alone")
    priority: int | None = Field(default=None, description="a lower one goes first")
    max_draft_tokens: Annotated[int, Field(ge=0)] | None = Field(
        default=None, description="most tokens that are guessed ahead in a step; 0: none"
    )


class StructureFields(Wire):
    """Ways to ask for structured output, and to be called back later. Each is refused, unless it asks for nothing."""

    response_format: ResponseFormat | None = None
    structured_outputs: object = None
    guided_json: object = None
    guided_regex: object = None
    guided_choice: object = None
    guided_grammar: object = None
    background: bool | None = None
