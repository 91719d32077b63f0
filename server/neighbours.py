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
        # What is kept, and for whom.
        *("metadata", "user", "safety_identifier", "store", "prompt_cache_key", "include"),
        # How soon it comes, and how.
        *("priority", "prediction", "max_draft_tokens", "stream", "stream_options"),
        # Clients of several servers send them all.
        *("reasoning", "reasoning_effort", "thinking", "add_special_tokens"),
        # Nothing without tools; nothing is ever cut off.
        *("parallel_tool_calls", "truncation"),
        # Anthropic's, of which nothing is known here.
        "context_management",
    }
)
_IDLE: tuple[object, ...] = (None, False, "", [], ["text"], "none", "auto")  # 0 is False


def refuse_foreign(fields: Mapping[str, object], model: type[Wire]) -> None:
    """Refuse the first field that other endpoints know and this one does not, unless it asks for nothing."""
    foreign = _FOREIGN.get(model, frozenset())
    for name, value in fields.items():
        if name in foreign and _asks(name, value):
            raise unsupported(name, "belongs to another endpoint, and means nothing here")


def _asks(name: str, value: object) -> bool:
    return value not in _IDLE and not (name in ("n", "best_of") and value == 1)


def _names(model: type[Wire]) -> frozenset[str]:
    return frozenset(field.alias or name for name, field in model.model_fields.items())


_KNOWN = frozenset(name for model in _BODIES for name in _names(model)) - _TOLERATED
_FOREIGN = {model: _KNOWN - _names(model) for model in _BODIES}
