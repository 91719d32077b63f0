"""Embeddings: what a client sends, and what it gets."""

from typing import Annotated, Literal

from pydantic import Field
from typing_extensions import TypedDict

from server.wire.base import Named
from server.wire.completions import Prompt

# -- requests -------------------------------------------------------------------------------------


class EmbeddingRequest(Named):
    """The body of `POST /v1/embeddings`."""

    input: Prompt
    encoding_format: Literal["float", "base64"] | None = Field(
        default=None, description="float if absent; base64 is of little-endian float32 values"
    )
    dimensions: Annotated[int, Field(ge=1)] | None = Field(default=None, description="the model's own, or absent")
    user: str | None = None

    pooling: Literal["last", "mean"] | None = Field(
        default=None, description="the hidden state of the last token, if absent, or the mean of all"
    )
    normalize: bool | None = Field(default=None, description="scaled to length 1, if absent")
    add_special_tokens: bool | None = None
    cache_salt: str | None = Field(default=None, description="requests share cached prefixes within one salt alone")
    priority: int | None = Field(default=None, description="a lower one goes first")


# -- answers --------------------------------------------------------------------------------------


class EmbeddingBody(TypedDict):
    """One input's embedding, as numbers or in base64."""

    object: Literal["embedding"]
    index: int
    embedding: list[float] | str


class EmbeddingUsage(TypedDict):
    """`usage`: an embedding has no outputs."""

    prompt_tokens: int
    total_tokens: int


class EmbeddingList(TypedDict):
    """The whole answer, in the order of the inputs."""

    object: Literal["list"]
    data: list[EmbeddingBody]
    model: str
    usage: EmbeddingUsage
