"""The models that are served: answers."""

from typing import Literal

from typing_extensions import TypedDict


class ModelBody(TypedDict):
    """One name that is served. `root` is the model's own name, which its aliases share."""

    id: str
    object: Literal["model"]
    created: int
    owned_by: str
    root: str
    max_model_len: int


class ModelList(TypedDict):
    """Every name that is served, the model's own first."""

    object: Literal["list"]
    data: list[ModelBody]
