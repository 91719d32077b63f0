"""Log-probabilities, in the two shapes that the two APIs have."""

from collections.abc import Iterable

from engine.request import Delta, OutputToken, TokenLogprob
from engine.text import Vocabulary
from server.render.reply import Reply
from server.wire.chat_bodies import LogprobsBody, TokenLogprobBody, TopLogprob
from server.wire.completions import CompletionLogprobs
from server.wire.scores import PromptLogprob

LOWEST = -9999.0  # what OpenAI gives for a token that can't be; JSON has no infinity


def floored(logprob: float) -> float:
    """A log-probability that JSON can hold."""
    return logprob if logprob > LOWEST else LOWEST


def best(scored: TokenLogprob, top_logprobs: int) -> list[tuple[int, float]]:
    """The likeliest tokens, best first, and the chosen one, wherever it stands."""
    top = list(scored.top[:top_logprobs])
    if all(token != scored.token for token, _ in top):
        top.append((scored.token, scored.logprob))
    return top


# -- chat -----------------------------------------------------------------------------------------


def chat_logprobs(tokens: Iterable[OutputToken], reply: Reply) -> LogprobsBody | None:
    """One entry for each token of the content, or None where the client asked for none."""
    if reply.top_logprobs is None:
        return None
    entries = [_chat_entry(token, token.logprob, reply) for token in tokens if token.in_text and token.logprob]
    return LogprobsBody(content=entries, refusal=None)


def _chat_entry(token: OutputToken, scored: TokenLogprob, reply: Reply) -> TokenLogprobBody:
    vocabulary, count = reply.vocabulary, reply.top_logprobs or 0
    return TokenLogprobBody(
        token=vocabulary.text_of(token.id),
        logprob=floored(scored.logprob),
        bytes=list(vocabulary.bytes_of(token.id, skip_special=reply.skips(token.id))),
        top_logprobs=[_chat_top(*other, vocabulary) for other in best(scored, count)] if count else [],
    )


def _chat_top(token: int, logprob: float, vocabulary: Vocabulary) -> TopLogprob:
    return TopLogprob(
        token=vocabulary.text_of(token),
        logprob=floored(logprob),
        bytes=list(vocabulary.bytes_of(token, skip_special=False)),
    )


# -- text completions -----------------------------------------------------------------------------


def label(token: int, vocabulary: Vocabulary) -> str:
    """The token's text; a token that breaks a character is written as OpenAI does, so that no two are the same."""
    piece = vocabulary.bytes_of(token, skip_special=False)
    try:
        return piece.decode()
    except UnicodeDecodeError:
        return "bytes:" + "".join(f"\\x{byte:02x}" for byte in piece)


def completion_logprobs(delta: Delta, reply: Reply, *, text_start: int) -> CompletionLogprobs | None:
    """The listed tokens of a delta; a stop token is listed with no text. Offsets begin at `text_start`."""
    if reply.top_logprobs is None:
        return None
    listed = [token for token in delta.tokens if token.in_text or not cut_by_string(delta)]
    labels = [label(token.id, reply.vocabulary) if token.in_text else "" for token in listed]
    return _columns(
        labels,
        [token.logprob for token in listed],
        [text_start + token.text_offset for token in listed],
        reply,
    )


def cut_by_string(delta: Delta) -> bool:
    """Whether a stop string ended the text, so that tokens behind it are no part of the answer."""
    return delta.end is not None and isinstance(delta.end.matched, str)


def prompt_logprobs(
    tokens: Iterable[int], scores: Iterable[TokenLogprob | None], offsets: Iterable[int], reply: Reply
) -> CompletionLogprobs:
    """The tokens of an echoed prompt; nothing comes before the first, so it has no score."""
    return _columns([label(token, reply.vocabulary) for token in tokens], list(scores), list(offsets), reply)


def _columns(
    labels: list[str], scores: list[TokenLogprob | None], offsets: list[int], reply: Reply
) -> CompletionLogprobs:
    return CompletionLogprobs(
        tokens=labels,
        token_logprobs=[None if scored is None else floored(scored.logprob) for scored in scores],
        top_logprobs=[
            None if scored is None else _by_label(name, scored, reply)
            for name, scored in zip(labels, scores, strict=True)
        ],
        text_offset=offsets,
    )


def _by_label(name: str, scored: TokenLogprob, reply: Reply) -> dict[str, float]:
    """The best tokens by label; the chosen one has the label that it is listed with."""
    named: dict[str, float] = {}
    for token, logprob in best(scored, reply.top_logprobs or 0):
        text = name if token == scored.token else label(token, reply.vocabulary)
        named.setdefault(text, floored(logprob))
    return named


def concatenated(first: CompletionLogprobs, second: CompletionLogprobs) -> CompletionLogprobs:
    """The prompt's and the output's tokens, as one list."""
    return CompletionLogprobs(
        tokens=first["tokens"] + second["tokens"],
        token_logprobs=first["token_logprobs"] + second["token_logprobs"],
        top_logprobs=first["top_logprobs"] + second["top_logprobs"],
        text_offset=first["text_offset"] + second["text_offset"],
    )


# -- both -----------------------------------------------------------------------------------------


def scores_by_id(
    scores: Iterable[TokenLogprob | None], count: int, vocabulary: Vocabulary
) -> list[dict[str, PromptLogprob] | None]:
    """What `prompt_logprobs` asks for: of each token of the prompt its own score and the `count` best ones."""
    return [None if scored is None else _by_id(scored, count, vocabulary) for scored in scores]


def _by_id(scored: TokenLogprob, count: int, vocabulary: Vocabulary) -> dict[str, PromptLogprob]:
    """The ranks of the best are their places; that of a token behind them is not known."""
    ranks = {token: rank for rank, (token, _) in enumerate(scored.top, start=1)}
    return {
        str(token): PromptLogprob(
            logprob=floored(logprob), rank=ranks.get(token), decoded_token=vocabulary.text_of(token)
        )
        for token, logprob in best(scored, count)
    }
