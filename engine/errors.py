"""Everything that can go wrong in the engine, as one tree.

EngineError
├── RequestRefused          the request was turned away at the door, nothing was started
│   ├── EmptyPrompt         there is no token to compute
│   ├── UnknownToken        a token id lies outside the vocabulary
│   ├── ContextTooLong      the prompt leaves no room for one more token
│   ├── GrammarRefused      the grammar is wrong, or asks for more than is allowed
│   ├── CompilersBusy       others' grammars took all the time that there was for this one
│   ├── QueueFull           too many requests wait already
│   └── Draining            the engine finishes what it has and admits no more
├── RequestFailed           the request had started and could not be finished
│   ├── StepFailed          the model step failed on this request, alone, more than once
│   ├── GrammarFailed       the request's grammar could not be followed any further
│   ├── SlowReader          the client did not read for too long
│   └── EngineStopped       the engine ended under the request
├── PromptError             text could not be turned into tokens
│   ├── ChatTemplateFailed  the model's chat template refused the messages
│   ├── VariableReserved    a template variable has a name that is the renderer's own
│   └── NoChatTemplate      the model has no chat template
└── ModelError              the model can't be served
    ├── ModelNotFound       no such folder, file or hub id
    ├── ModelUnsupported    a structure that this engine does not run, named
    │   └── SettingUnusable what a setting asks for does not go with this model or machine
    ├── CacheTooSmall       the configured memory holds no useful cache
    ├── StatesTooLarge      the recurrent states of all sequences take more than the cache's memory
    └── CacheTooLarge       the configured cache is more than the memory that is free
"""


class EngineError(Exception):
    """The root of the tree."""


class RequestRefused(EngineError):
    """The request was turned away at the door."""


class EmptyPrompt(RequestRefused):
    """There is no token to compute."""

    def __init__(self) -> None:
        super().__init__("the prompt holds no tokens")


class UnknownToken(RequestRefused):
    """A token id lies outside the vocabulary."""

    def __init__(self, *, field: str, token: int, vocabulary_size: int) -> None:
        super().__init__(f"{field} holds token id {token}, the vocabulary has ids 0 to {vocabulary_size - 1}")
        self.field, self.token, self.vocabulary_size = field, token, vocabulary_size


class ContextTooLong(RequestRefused):
    """The prompt leaves no room for one more token."""

    def __init__(self, *, prompt_tokens: int, limit: int, at_least: bool = False) -> None:
        has = "has at least" if at_least else "has"
        super().__init__(f"the prompt {has} {prompt_tokens} tokens and the context holds {limit}, outputs included")
        self.prompt_tokens, self.limit = prompt_tokens, limit


class GrammarRefused(RequestRefused):
    """The grammar is wrong, or asks for more than is allowed. `part` names its part that is at fault, if one is."""

    def __init__(self, *, syntax: str, reason: str, part: str = "") -> None:
        super().__init__(f"the {syntax} can't be used: {reason}")
        self.syntax, self.reason, self.part = syntax, reason, part

    def within(self, part: str) -> "GrammarRefused":
        """The same, of what is a part of another grammar. A part within that part stays the one at fault."""
        return GrammarRefused(syntax=self.syntax, reason=self.reason, part=self.part or part)


class CompilersBusy(RequestRefused):
    """Others' grammars took all the time that there was for this one."""

    def __init__(self, *, seconds: float) -> None:
        super().__init__(f"the grammar was not begun within {seconds:g} seconds: others are made ready")
        self.seconds = seconds


class QueueFull(RequestRefused):
    """Too many requests wait already."""

    def __init__(self, *, waiting: int, limit: int, retry_after_seconds: int) -> None:
        super().__init__(f"{waiting} requests wait already, the queue holds {limit}")
        self.waiting, self.limit, self.retry_after_seconds = waiting, limit, retry_after_seconds


class Draining(RequestRefused):
    """The engine finishes what it has and admits no more."""

    def __init__(self) -> None:
        super().__init__("the server is shutting down and takes no new requests")


class RequestFailed(EngineError):
    """The request had started and could not be finished."""


class StepFailed(RequestFailed):
    """The model step failed on this request, alone, more than once."""

    def __init__(self, *, request_id: str, cause: str) -> None:
        super().__init__(f"the model step failed on request {request_id}: {cause}")
        self.request_id, self.cause = request_id, cause


class GrammarFailed(RequestFailed):
    """The request's grammar could not be followed any further."""

    def __init__(self, *, name: str, reason: str) -> None:
        super().__init__(f"{name or 'the grammar'}: nothing may follow what was said: {reason}")
        self.name, self.reason = name, reason


class SlowReader(RequestFailed):
    """The client did not read for too long."""

    def __init__(self, *, limit_seconds: float) -> None:
        super().__init__(f"the stream was not read for {limit_seconds:g} seconds")
        self.limit_seconds = limit_seconds


class EngineStopped(RequestFailed):
    """The engine ended under the request."""

    def __init__(self) -> None:
        super().__init__("the engine stopped before the request was finished")


class PromptError(EngineError):
    """Text could not be turned into tokens."""


class ChatTemplateFailed(PromptError):
    """The model's chat template refused the messages."""


class VariableReserved(PromptError):
    """A template variable has a name that is the renderer's own."""

    def __init__(self, name: str) -> None:
        super().__init__(f"{name} can't be a template variable")
        self.name = name


class NoChatTemplate(PromptError):
    """The model has no chat template."""

    def __init__(self) -> None:
        super().__init__("the model has no chat template, use /v1/completions")


class ModelError(EngineError):
    """The model can't be served."""


class ModelNotFound(ModelError):
    """No such folder, file or hub id."""


class ModelUnsupported(ModelError):
    """A structure that this engine does not run, named in the message."""


class SettingUnusable(ModelUnsupported):
    """What a setting asks for does not go with this model or machine. `setting` is its name, as `model.kernels`."""

    def __init__(self, message: str, *, setting: str) -> None:
        super().__init__(message)
        self.setting = setting


class CacheTooSmall(ModelError):
    """The configured memory holds no useful cache."""

    def __init__(self, *, cache_bytes: int, block_bytes: int, min_blocks: int) -> None:
        super().__init__(
            f"the cache has {cache_bytes} bytes, which is fewer than {min_blocks} blocks of {block_bytes} bytes: "
            "raise cache.memory_bytes or cache.num_blocks"
        )


class StatesTooLarge(ModelError):
    """The recurrent states of all sequences take more than the cache's memory."""

    def __init__(self, *, num_slots: int, slot_bytes: int, cache_bytes: int) -> None:
        super().__init__(
            f"{num_slots} recurrent states of {slot_bytes} bytes, for sequences and checkpoints, are more than the "
            f"cache's {cache_bytes} bytes: raise cache.memory_bytes, or lower engine.max_sequences or "
            "cache.checkpoint_bytes"
        )


class CacheTooLarge(ModelError):
    """The configured cache is more than the memory that is free."""

    def __init__(self, *, cache_bytes: int, free_bytes: int) -> None:
        super().__init__(
            f"the cache takes {cache_bytes} bytes, and {free_bytes} are free: "
            "lower cache.memory_bytes or cache.num_blocks"
        )
