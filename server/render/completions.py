"""Text completions: whole, and chunk by chunk. Both are made of the same pieces."""

from codecs import getincrementaldecoder
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from engine.request import Delta, TokenLogprob, Usage
from engine.text import Vocabulary
from server.errors import ApiError
from server.events import DONE, Event, event
from server.prompt import Prompt
from server.render.logprobs import completion_logprobs, concatenated, prompt_logprobs, scores_by_id
from server.render.reply import Reply, stop_or_length, usage_body
from server.streams import Arrival, Parts
from server.wire.completions import Completion, CompletionChoice, CompletionLogprobs


@dataclass(frozen=True, slots=True)
class Echo:
    """A prompt as the answer repeats it: its text, and where in it each token begins."""

    text: str
    offsets: tuple[int, ...]


def echo_of(prompt: Prompt, vocabulary: Vocabulary, *, skip_special: bool) -> Echo:
    """The client's own text, or that of its tokens."""
    decoded, offsets = _decoded(prompt.tokens, vocabulary, skip_special=skip_special)
    text = vocabulary.decode(prompt.tokens, skip_special=skip_special) if prompt.text is None else prompt.text
    added = len(decoded) - len(text) if decoded.endswith(text) else 0  # a space of the tokenizer's own, in front
    return Echo(text, tuple(min(max(offset - added, 0), len(text)) for offset in offsets))


def _decoded(tokens: Sequence[int], vocabulary: Vocabulary, *, skip_special: bool) -> tuple[str, list[int]]:
    """The text of the tokens, and how many whole characters come before each."""
    decoder = getincrementaldecoder("utf-8")("replace")
    text, offsets = [], []
    length = 0
    for token in tokens:
        offsets.append(length)
        text.append(decoder.decode(vocabulary.bytes_of(token, skip_special=skip_special)))
        length += len(text[-1])
    return "".join(text) + decoder.decode(b"", final=True), offsets


class Completions:
    """Makes the parts of one answer to one or more prompts. `echoes` is empty where none are wanted."""

    def __init__(self, reply: Reply, prompts: Sequence[Prompt], echoes: Sequence[Echo]) -> None:
        self._reply = reply
        self._prompts = prompts
        self._echoes = echoes
        self._begun: set[int] = set()
        self._usages: dict[tuple[int, int], Usage] = {}

    @property
    def id(self) -> str:
        """The answer's."""
        return self._reply.id

    # -- whole ------------------------------------------------------------------------------------

    def whole(self, parts: Parts) -> Completion:
        """The whole answer."""
        body = self._body([self._whole_choice(prompt, part) for (prompt, _), part in parts.items()])
        body["usage"] = usage_body({key: part.end.usage for key, part in parts.items() if part.end})
        return body

    def _whole_choice(self, prompt: int, part: Delta) -> CompletionChoice:
        choice = self._output(prompt, part)
        if self._echoes:
            choice["text"] = self._echoes[prompt].text + choice["text"]
            scores = self._echo_logprobs(prompt, part.prompt_logprobs)
            if scores is not None and choice["logprobs"] is not None:
                choice["logprobs"] = concatenated(scores, choice["logprobs"])
        self._add_end(choice, part)
        if self._reply.shows_tokens:
            choice["prompt_token_ids"] = list(self._prompts[prompt].tokens)
        count = self._reply.prompt_logprobs
        if part.prompt_logprobs is not None and count is not None:
            choice["prompt_logprobs"] = scores_by_id(part.prompt_logprobs, count, self._reply.vocabulary)
        return choice

    # -- streamed ---------------------------------------------------------------------------------

    def first(self) -> Iterable[Event]:
        """Nothing: a choice begins with its first delta."""
        return ()

    def feed(self, arrival: Arrival) -> Iterable[Event]:
        """The chunks of one delta."""
        prompt, delta = arrival.prompt, arrival.delta
        choices = self._first(prompt, delta)
        output = self._output(prompt, delta)
        logprobs = output["logprobs"]
        if delta.text or (logprobs and logprobs["tokens"]) or output.get("token_ids"):
            choices.append(output)
        if delta.end is not None:
            self._usages[prompt, delta.choice] = delta.end.usage
            choices.append(self._empty(prompt, delta))
            self._add_end(choices[-1], delta)
        return [event(self._chunk([choice])) for choice in choices]

    def last(self) -> Iterable[Event]:
        """The usage, if asked for, and the mark of the end."""
        if not self._reply.shows_usage:
            return (DONE,)
        chunk = self._body([])
        chunk["usage"] = usage_body(self._usages)
        return (event(chunk), DONE)

    def failed(self, error: ApiError) -> Iterable[Event]:
        """The error. No mark of the end follows it."""
        return (event(error.envelope),)

    def _first(self, prompt: int, delta: Delta) -> list[CompletionChoice]:
        """What a choice's first delta brings in front: the echo, and the prompt's token ids."""
        choice = self._empty(prompt, delta)
        if choice["index"] in self._begun:
            return []
        self._begun.add(choice["index"])
        if self._echoes:
            choice["text"] = self._echoes[prompt].text
            choice["logprobs"] = self._echo_logprobs(prompt, delta.prompt_logprobs)
        if self._reply.shows_tokens:
            choice["prompt_token_ids"] = list(self._prompts[prompt].tokens)
        return [choice] if self._echoes or self._reply.shows_tokens else []

    def _chunk(self, choices: list[CompletionChoice]) -> Completion:
        chunk = self._body(choices)
        if self._reply.shows_usage:
            chunk["usage"] = None
        return chunk

    # -- pieces -----------------------------------------------------------------------------------

    def _empty(self, prompt: int, delta: Delta) -> CompletionChoice:
        index = prompt * self._reply.num_choices + delta.choice
        return CompletionChoice(index=index, text="", logprobs=None, finish_reason=None, stop_reason=None)

    def _output(self, prompt: int, delta: Delta) -> CompletionChoice:
        """What the model wrote."""
        start = len(self._echoes[prompt].text) if self._echoes else 0
        choice = self._empty(prompt, delta)
        choice["text"] = delta.text
        choice["logprobs"] = completion_logprobs(delta, self._reply, text_start=start)
        if self._reply.shows_tokens:
            choice["token_ids"] = [token.id for token in delta.tokens]
        return choice

    @staticmethod
    def _add_end(choice: CompletionChoice, delta: Delta) -> None:
        assert delta.end is not None, "a choice that was read to its end has one"
        choice["finish_reason"] = stop_or_length(delta.end)
        choice["stop_reason"] = delta.end.matched

    def _echo_logprobs(self, prompt: int, scores: tuple[TokenLogprob | None, ...] | None) -> CompletionLogprobs | None:
        if scores is None:
            return None
        return prompt_logprobs(self._prompts[prompt].tokens, scores, self._echoes[prompt].offsets, self._reply)

    def _body(self, choices: list[CompletionChoice]) -> Completion:
        reply = self._reply
        return Completion(
            id=reply.id,
            object="text_completion",
            created=reply.created,
            model=reply.model,
            system_fingerprint=reply.fingerprint,
            choices=choices,
        )
