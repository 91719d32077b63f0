"""Tokenize and detokenize: bodies and answers."""

from typing import Annotated

from pydantic import Field
from typing_extensions import TypedDict

from server.wire.base import Tokens, Wire
from server.wire.chat import Messages, TemplateFields, ToolFields

MAX_TOKENS = 1 << 22  # as many as the longest text that is taken can have


class TokenizeRequest(TemplateFields, ToolFields):
    """The body of `POST /tokenize`: either a prompt or messages."""

    model: str | None = None
    prompt: str | None = None
    messages: Messages | None = None
    add_special_tokens: bool | None = Field(default=None, description="for a prompt; true if absent")
    return_token_strs: bool | None = None


class _Strings(TypedDict, total=False):
    token_strs: list[str]


class TokenizeAnswer(_Strings):
    """The token ids, how many they are, and how many the model can hold, outputs included."""

    tokens: list[int]
    count: int
    max_model_len: int


class DetokenizeRequest(Wire):
    """The body of `POST /detokenize`."""

    model: str | None = None
    tokens: Annotated[Tokens, Field(max_length=MAX_TOKENS)]


class DetokenizeAnswer(TypedDict):
    """The text of the tokens, control tokens included."""

    prompt: str
