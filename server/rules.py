"""What no type can say: rules over several fields, and what this model or server does not have."""

from collections.abc import Sequence

from server.errors import ApiError, unsupported
from server.wire.base import Wire
from server.wire.chat import ChatRequest, Message, TemplateFields
from server.wire.completions import CompletionRequest
from server.wire.embeddings import EmbeddingRequest
from server.wire.sampling import SamplingFields

MAX_EMBEDDING_INPUTS = 2048  # OpenAI's
_BACKGROUND = ("background",)
_CHAT = ("audio", "web_search_options")


def wrong(param: str, message: str) -> ApiError:
    """A field that does not fit the others."""
    return ApiError(400, f"{param}: {message}", param=param)


def check_chat(body: ChatRequest) -> None:
    """Refuse what the fields together, or this server, do not allow."""
    _check_sampling(body, max_tokens=chat_max_tokens(body))
    check_template(body, body.messages)
    _refuse_asked(body, _BACKGROUND)
    _refuse_asked(body, _CHAT)
    if body.functions or body.function_call not in (None, "none", "auto"):
        raise unsupported("functions" if body.functions else "function_call", "`tools` have taken its place")
    if any(modality != "text" for modality in body.modalities or ()):
        raise unsupported("modalities", "this model writes text alone")
    if body.top_logprobs and not body.logprobs:
        raise wrong("top_logprobs", "needs `logprobs` to be true")


def chat_max_tokens(body: ChatRequest) -> int | None:
    """The most tokens of a choice; the newer field wins."""
    return body.max_tokens if body.max_completion_tokens is None else body.max_completion_tokens


def check_completion(body: CompletionRequest) -> None:
    """Refuse what the fields together, or this server, do not allow."""
    _check_sampling(body, max_tokens=body.max_tokens)
    _refuse_asked(body, _BACKGROUND)
    if body.suffix:
        raise unsupported("suffix", "this model does not fill in the middle")
    if body.best_of is not None and body.best_of != (body.n or 1):
        raise unsupported("best_of", "only as many as `n` are made")


def check_num_prompts(body: CompletionRequest, *, most: int) -> None:
    """Refuse more prompts than the queue could ever hold: trying again would not help."""
    if isinstance(body.prompt, list) and not isinstance(body.prompt[0], int) and len(body.prompt) > most:
        raise wrong("prompt", f"holds {len(body.prompt)} prompts, at most {most} are taken at once")


def check_embedding(body: EmbeddingRequest, *, size: int) -> None:
    """Refuse inputs without a text, more of them than OpenAI takes, and vectors that this model does not make."""
    inputs = body.input if isinstance(body.input, list) else [body.input]
    if "" in inputs:
        raise wrong("input", "holds an empty text")
    if len(inputs) > MAX_EMBEDDING_INPUTS and not isinstance(inputs[0], int):
        raise wrong("input", f"holds {len(inputs)} inputs, at most {MAX_EMBEDDING_INPUTS} are taken at once")
    if body.dimensions not in (None, size):
        raise wrong("dimensions", f"is {body.dimensions}, and this model's embeddings have {size} values")


def check_template(body: TemplateFields, messages: Sequence[Message]) -> None:
    """Refuse a client's own template, tools that come in by its back door, and what its messages do not allow."""
    if body.chat_template is not None:
        raise wrong("chat_template", "a template can't come from a client")
    kwargs = body.chat_template_kwargs or {}
    if "chat_template" in kwargs:
        raise wrong("chat_template_kwargs.chat_template", "a template can't come from a client")
    if kwargs.get("tools"):
        raise wrong("chat_template_kwargs.tools", "belongs in `tools`")
    if body.add_generation_prompt and body.continue_final_message:
        raise wrong("continue_final_message", "goes against `add_generation_prompt`")
    if body.continue_final_message and messages[-1].role != "assistant":
        raise wrong("continue_final_message", "needs a last message of the assistant")


def _check_sampling(body: SamplingFields, *, max_tokens: int | None) -> None:
    if body.stream_options is not None and not body.stream:
        raise wrong("stream_options", "needs `stream` to be true")
    if body.prompt_logprobs is not None and body.stream:
        raise wrong("prompt_logprobs", "is not available in a stream")
    if body.min_tokens and max_tokens is not None and body.min_tokens > max_tokens:
        raise wrong("min_tokens", f"is {body.min_tokens}, more than the {max_tokens} tokens that may be made")


def _refuse_asked(body: Wire, names: tuple[str, ...]) -> None:
    """An empty object asks for something: web search as it comes, any JSON at all."""
    for name in names:
        if getattr(body, name) not in (None, False, "", []):
            raise unsupported(name, "is not available here")
