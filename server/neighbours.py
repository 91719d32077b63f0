"""Neighbours: fields of another endpoint's body, which would be passed over here though somebody means something."""

from collections.abc import Mapping

from server.errors import unsupported
from server.wire.base import Wire
from server.wire.chat import ChatRequest
from server.wire.completions import CompletionRequest
from server.wire.embeddings import EmbeddingRequest
from server.wire.messages import MessagesRequest
from server.wire.responses import ResponsesRequest

_BODIES: tuple[type[Wire], ...] = (ChatRequest, CompletionRequest, EmbeddingRequest, MessagesRequest, ResponsesRequest)
_TOLERATED = frozenset(
    {
        *(
            "metadata",
            "user",
            "safety_identifier",
            "store",
            "prompt_cache_key",
            "include",
        ),  # what is kept, and for whom
        *("priority", "prediction", "max_draft_tokens", "stream", "stream_options"),  # how soon it comes, and how
        *(
            "reasoning",
            "reasoning_effort",
            "thinking",
            "add_special_tokens",
        ),  # clients of several servers send them all
        *("parallel_tool_calls", "truncation"),  # nothing without tools; nothing is ever cut off
        "context_management",  # Anthropic's, of which nothing is known here
    }
)
_IDLE: tuple[object, ...] = (None, False, "", [], ["text"], "none", "auto")  # 0 is False


def refuse_foreign(fields: Mapping[str, object], model: type[Wire]) -> None:
    """Refuse the first field that other endpoints know and this one does not, unless it asks for nothing."""
    if model not in _BODIES:
        return
    foreign = _KNOWN - _names(model) - _TOLERATED
    for name, value in fields.items():
        if name in foreign and _asks(name, value):
            raise unsupported(name, "belongs to another endpoint, and means nothing here")


def _asks(name: str, value: object) -> bool:
    return value not in _IDLE and not (name in ("n", "best_of") and value == 1)


def _names(model: type[Wire]) -> frozenset[str]:
    return frozenset(field.alias or name for name, field in model.model_fields.items())


_KNOWN = frozenset(name for model in _BODIES for name in _names(model))
