"""What the bodies of every endpoint share: strict types, and unions that name the field at fault."""

from collections.abc import Mapping
from typing import Annotated

from pydantic import (
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WrapValidator,
)

_PAST_64_BITS = 2.0**63
MAX_STOP_CHARACTERS = 2048  # each token is matched against every stop string, so their size costs time


class Wire(BaseModel):
    """A JSON object of a request: strict, frozen, open to fields that are not known here."""

    model_config = ConfigDict(strict=True, frozen=True, extra="ignore", allow_inf_nan=False)


class Named(Wire):
    """A body that names the model which is to answer it."""

    model: str


def shape(value: object) -> str | None:
    """The tag of a value's JSON type. Tags stand in angle brackets, which no field's name does."""
    if isinstance(value, str):
        return "<text>"
    if isinstance(value, list):
        return "<list>"
    return "<object>" if isinstance(value, Mapping) else None


def by_shape(expected: str) -> Discriminator:
    """Choose a union's member by the value's JSON type; anything else "must be `expected`"."""
    return Discriminator(shape, custom_error_type="wrong_type", custom_error_message=f"must be {expected}")


def is_past_64_bits(value: object) -> bool:
    """Whether a number is an integer that the JSON parser had no room for and made a float."""
    return isinstance(value, float) and abs(value) >= _PAST_64_BITS


def _with_large_ids(tokens: object, validate: ValidatorFunctionWrapHandler) -> object:
    """Let ids past 64 bits be ids, so that who knows the vocabulary refuses them as it does others."""
    try:
        return validate(tokens)
    except ValidationError:
        if not isinstance(tokens, list) or not any(map(is_past_64_bits, tokens)):
            raise
    return validate([int(token) if is_past_64_bits(token) else token for token in tokens])


Tokens = Annotated[
    list[int],
    Field(fail_fast=True),  # one error, not one a token
    WrapValidator(_with_large_ids),
]

StopString = Annotated[str, Field(min_length=1, max_length=MAX_STOP_CHARACTERS)]
Stop = Annotated[
    Annotated[StopString, Tag("<text>")]
    | Annotated[list[StopString], Field(min_length=1, max_length=16), Tag("<list>")],
    by_shape("a string or a list of 1 to 16 strings"),
]
