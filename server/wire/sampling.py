"""The fields that chat and text completions share."""

from typing import Annotated, Literal, Self

from pydantic import Field, PlainValidator, Tag, model_validator
from pydantic_core import PydanticCustomError

from server.wire.base import Named, Stop, Tokens, Wire, by_shape

MAX_BIAS = 100
MAX_BIASES = 4096
MAX_STOP_TOKENS = 4096
_SAID = "needs either `format`, or `structures` and `triggers`"
_MAX_SHOWN_KEY = 20  # characters of a wrong key that its error repeats


class StreamOptions(Wire):
    """`stream_options`."""

    include_usage: bool | None = None


class JsonSchemaFormat(Wire):
    """`response_format.json_schema`. It is enforced whether `strict` or not."""

    name: str | None = None
    schema_: dict[str, object] = Field(alias="schema")
    strict: bool | None = None


Schema = Annotated[
    Annotated[str, Tag("<text>")] | Annotated[dict[str, object], Tag("<object>")],
    by_shape("a JSON schema, as an object or as text"),
]
Choices = Annotated[list[Annotated[str, Field(min_length=1)]], Field(min_length=1, fail_fast=True)]
Expression = Annotated[str, Field(min_length=1)]


class TagStructure(Wire):
    """One of `structures`: a tag, and the schema of the JSON within it."""

    begin: Expression
    schema_: Schema | None = Field(default=None, alias="schema")
    end: str


class TagFields(Wire):
    """A structural tag, in one of two ways: a `format`, or `structures` and `triggers`."""

    structures: list[TagStructure] | None = Field(default=None, min_length=1)
    triggers: list[Expression] | None = Field(default=None, min_length=1)
    format: dict[str, object] | None = Field(default=None, description="as xgrammar has it")

    @property
    def is_said(self) -> bool:
        """Whether it is said in just one of the ways."""
        old = self.structures is not None and self.triggers is not None
        return old != (self.format is not None) and (self.structures is None) == (self.triggers is None)


class StructuralTag(TagFields):
    """`structured_outputs.structural_tag`."""

    type: Literal["structural_tag"] | None = None

    @model_validator(mode="after")
    def _said(self) -> Self:
        if not self.is_said:
            raise PydanticCustomError("incomplete", _SAID)
        return self


class ResponseFormat(TagFields):
    """`response_format`."""

    type: Literal["text", "json_object", "json_schema", "structural_tag"]
    json_schema: JsonSchemaFormat | None = None
    schema_: Schema | None = Field(default=None, alias="schema", description="beside json_object, as llama.cpp has it")

    @model_validator(mode="after")
    def _what_its_type_needs(self) -> Self:
        if self.type == "json_schema" and self.json_schema is None:
            raise PydanticCustomError("incomplete", "needs `json_schema` beside the type json_schema")
        if self.type == "structural_tag" and not self.is_said:
            raise PydanticCustomError("incomplete", _SAID)
        return self


TagOrText = Annotated[
    Annotated[str, Tag("<text>")] | Annotated[StructuralTag, Tag("<object>")],
    by_shape("a structural tag, as an object or as text"),
]


class StructuredOutputs(Wire):
    """`structured_outputs`, as vLLM has it: one kind of structure."""

    json_: Schema | None = Field(default=None, alias="json")
    regex: Expression | None = None
    choice: Choices | None = None
    grammar: Expression | None = None
    json_object: bool | None = None
    structural_tag: TagOrText | None = None


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


class SamplingFields(Named):
    """How tokens are chosen, when a choice ends, and how the answer is sent. Null is the same as absent."""

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
    prompt_logprobs: Annotated[int, Field(ge=0, le=20)] | None = Field(
        default=None, description="the score of each token of the prompt, and of so many beside it; not in a stream"
    )
    cache_salt: str | None = Field(default=None, description="requests share cached prefixes within one salt alone")
    priority: int | None = Field(default=None, description="a lower one goes first")
    max_draft_tokens: Annotated[int, Field(ge=0)] | None = Field(
        default=None, description="most tokens that are guessed ahead in a step; 0: none"
    )


class StructureFields(Wire):
    """What the answer has to match: at most one of these. The last four are older names of vLLM's."""

    response_format: ResponseFormat | None = None
    structured_outputs: StructuredOutputs | None = None
    guided_json: Schema | None = None
    guided_regex: Expression | None = None
    guided_choice: Choices | None = None
    guided_grammar: Expression | None = Field(default=None, description="in Lark, or GBNF, whose first rule is `root`")
    background: bool | None = Field(default=None, description="refused")
