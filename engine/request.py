"""The frozen values that cross the engine's border: what is asked, and what comes back."""

from dataclasses import dataclass, field
from enum import Enum

from engine.errors import EngineError


@dataclass(frozen=True, slots=True)
class Sampling:
    """How a token is chosen from a row of logits.

    `temperature` 0 is greedy: the largest logit, ties to the lowest id. `top_k` None keeps all.
    Presence and frequency penalties count outputs only, the repetition penalty prompt and outputs.
    Randomness comes from `(seed, choice, output index)` and nothing else.
    """

    seed: int
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int | None = None
    min_p: float = 0.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    repetition_penalty: float = 1.0
    logit_bias: tuple[tuple[int, float], ...] = ()

    @property
    def greedy(self) -> bool:
        """Whether the largest logit is taken."""
        return self.temperature == 0.0

    @property
    def penalizes(self) -> bool:
        """Whether earlier tokens change the logits."""
        return bool(self.presence_penalty or self.frequency_penalty) or self.repetition_penalty != 1.0


@dataclass(frozen=True, slots=True)
class Stopping:
    """When a sequence ends, besides the end of the context.

    `max_tokens` None is the rest of the context, 0 chooses nothing (scoring). `eos_ids` is empty
    where the client ignores the end. Until `min_tokens` outputs exist neither `eos_ids` nor
    `token_ids` are chosen and no stop string is matched.
    """

    max_tokens: int | None = None
    min_tokens: int = 0
    strings: tuple[str, ...] = ()
    token_ids: frozenset[int] = frozenset()
    eos_ids: frozenset[int] = frozenset()
    include_stop: bool = False


class Pooling(Enum):
    """Which hidden states of a prompt its embedding is the mean of."""

    LAST = "last"  # that of the last token, which has seen all others
    MEAN = "mean"  # those of all tokens


class Syntax(Enum):
    """What a grammar is written in."""

    JSON_SCHEMA = "JSON schema"
    REGEX = "regular expression"
    LARK = "Lark grammar"  # llguidance's kind, in which schemas may be embedded: `%json {…}`
    GBNF = "GBNF grammar"


@dataclass(frozen=True, slots=True)
class Grammar:
    """What the outputs of a request must match, as text; a schema is JSON.

    `parts` are named grammars that a Lark grammar has in it: `@name` is one of them as a whole. `name` is what
    whoever asked calls the grammar, for errors.
    """

    syntax: Syntax
    source: str
    parts: tuple[tuple[str, "Grammar"], ...] = ()
    name: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class Request:
    """What the client asked, as tokens; immutable.

    `top_logprobs` None asks for none, 0 for the chosen token's alone, k for the k best beside it;
    `prompt_logprobs` likewise for the prompt's own tokens. Where special tokens are skipped, those of
    `shown_special_ids` are in the text all the same. `salt` separates tenants in the prefix
    cache. A lower `priority` goes first. `prediction` is the client's guess at the whole output; like
    `max_draft_tokens`, None for what the engine allows and 0 for no drafts, it changes nothing but the speed.
    `pooling` asks for the prompt's embedding; such a request chooses nothing.
    Where there is a `grammar` the outputs match it, and end where it does; until then they are the beginning of
    something that matches.
    """

    id: str
    prompt: tuple[int, ...]
    sampling: Sampling
    stopping: Stopping
    num_choices: int = 1
    top_logprobs: int | None = None
    prompt_logprobs: int | None = None
    skip_special_tokens: bool = True
    shown_special_ids: frozenset[int] = frozenset()
    salt: str = ""
    priority: int = 0
    prediction: tuple[int, ...] = ()
    max_draft_tokens: int | None = None
    pooling: Pooling | None = None
    grammar: Grammar | None = None

    def __post_init__(self) -> None:
        assert self.pooling is None or self.chooses_nothing, "an embedding has no outputs"

    @property
    def chooses_nothing(self) -> bool:
        """Whether the request only computes its prompt."""
        return self.stopping.max_tokens == 0


class FinishReason(Enum):
    """Why a sequence ended."""

    STOP = "stop"
    LENGTH = "length"
    ABORT = "abort"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class TokenLogprob:
    """A token's log-probability from the raw logits, and the best tokens beside it, best first."""

    token: int
    logprob: float
    top: tuple[tuple[int, float], ...] = ()


@dataclass(frozen=True, slots=True)
class OutputToken:
    """One accepted output token as it is published.

    `text_offset` is where its text begins in the choice's output text, in characters. `in_text` is
    False for a stop token and for a token wholly behind a stop string's cut.
    """

    id: int
    text_offset: int
    in_text: bool
    logprob: TokenLogprob | None = None


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one sequence: its prompt, how much of it was found in the cache, its outputs.

    The last two count drafts from the client's own prediction: those that stood, and those that fell.
    """

    prompt_tokens: int
    cached_tokens: int
    output_tokens: int
    accepted_prediction_tokens: int = 0
    rejected_prediction_tokens: int = 0


@dataclass(frozen=True, slots=True)
class End:
    """The one terminal event of a sequence.

    `matched` is the stop string or the client's own stop token id that ended it, if one did.
    """

    reason: FinishReason
    usage: Usage
    matched: str | int | None = None
    error: EngineError | None = None


@dataclass(frozen=True, slots=True)
class Delta:
    """What is handed to the stream at once, for one choice.

    `prompt_logprobs` comes once, where it was asked for: one entry a prompt token, the first None. So does
    `embedding`, with the end.
    """

    choice: int
    text: str = ""
    tokens: tuple[OutputToken, ...] = ()
    prompt_logprobs: tuple[TokenLogprob | None, ...] | None = None
    end: End | None = None
    embedding: tuple[float, ...] | None = None
