"""Chat answers: whole, and chunk by chunk. Both are made of the same pieces."""

from collections.abc import Iterable

from engine.request import Delta, End, Usage
from server.errors import ApiError
from server.events import DONE, Event, event
from server.prompt import Prompt
from server.render.logprobs import chat_logprobs
from server.render.reply import Reply, finish_reason, usage_body
from server.streams import Arrival, Parts
from server.wire.chat import AssistantMessage, ChatChoice, ChatChunk, ChatCompletion, ChunkChoice, ChunkDelta


class Chat:
    """Makes the parts of one answer. Streamed, each choice is its role, its text and its reason."""

    def __init__(self, reply: Reply, prompt: Prompt) -> None:
        self._reply = reply
        self._prompt = prompt
        self._begun: set[int] = set()
        self._usages: dict[tuple[int, int], Usage] = {}

    @property
    def id(self) -> str:
        """The answer's."""
        return self._reply.id

    # -- whole ------------------------------------------------------------------------------------

    def whole(self, parts: Parts) -> ChatCompletion:
        """The whole answer."""
        reply = self._reply
        body = ChatCompletion(
            id=reply.id,
            object="chat.completion",
            created=reply.created,
            model=reply.model,
            system_fingerprint=reply.fingerprint,
            choices=[self._whole_choice(part) for part in parts.values()],
            usage=usage_body({key: part.end.usage for key, part in parts.items() if part.end}),
        )
        if reply.shows_tokens:
            body["prompt_token_ids"] = list(self._prompt.tokens)
        return body

    def _whole_choice(self, part: Delta) -> ChatChoice:
        assert part.end is not None, "a choice that was read to its end has one"
        choice = ChatChoice(
            index=part.choice,
            message=AssistantMessage(role="assistant", content=part.text, refusal=None),
            logprobs=chat_logprobs(part, self._reply),
            finish_reason=finish_reason(part.end),
            stop_reason=part.end.matched,
        )
        if self._reply.shows_tokens:
            choice["token_ids"] = _ids(part)
        return choice

    # -- streamed ---------------------------------------------------------------------------------

    def first(self) -> Iterable[Event]:
        """Nothing: a choice begins with its first delta."""
        return ()

    def feed(self, arrival: Arrival) -> Iterable[Event]:
        """The chunks of one delta."""
        delta = arrival.delta
        chunks = [self._role(delta.choice)] if delta.choice not in self._begun else []
        output = self._output(delta)
        logprobs = output["logprobs"]
        if delta.text or (logprobs and logprobs["content"]) or output.get("token_ids"):
            chunks.append(self._chunk([output]))
        if delta.end is not None:
            self._usages[arrival.prompt, delta.choice] = delta.end.usage
            chunks.append(self._chunk([_ended(delta.choice, delta.end)]))
        return map(event, chunks)

    def last(self) -> Iterable[Event]:
        """The usage, if asked for, and the mark of the end."""
        if not self._reply.shows_usage:
            return (DONE,)
        chunk = self._chunk([])
        chunk["usage"] = usage_body(self._usages)
        return (event(chunk), DONE)

    def failed(self, error: ApiError) -> Iterable[Event]:
        """The error. No mark of the end follows it."""
        return (event(error.envelope),)

    def _role(self, choice: int) -> ChatChunk:
        first = not self._begun
        self._begun.add(choice)
        chunk = self._chunk([_chunk_choice(choice, ChunkDelta(role="assistant", content=""))])
        if first and self._reply.shows_tokens:
            chunk["prompt_token_ids"] = list(self._prompt.tokens)
        return chunk

    def _output(self, delta: Delta) -> ChunkChoice:
        """What the model wrote."""
        choice = _chunk_choice(delta.choice, ChunkDelta(content=delta.text))
        choice["logprobs"] = chat_logprobs(delta, self._reply)
        if self._reply.shows_tokens:
            choice["token_ids"] = _ids(delta)
        return choice

    def _chunk(self, choices: list[ChunkChoice]) -> ChatChunk:
        reply = self._reply
        chunk = ChatChunk(
            id=reply.id,
            object="chat.completion.chunk",
            created=reply.created,
            model=reply.model,
            system_fingerprint=reply.fingerprint,
            choices=choices,
        )
        if reply.shows_usage:
            chunk["usage"] = None
        return chunk


def _ids(delta: Delta) -> list[int]:
    return [token.id for token in delta.tokens]


def _chunk_choice(index: int, delta: ChunkDelta) -> ChunkChoice:
    return ChunkChoice(index=index, delta=delta, logprobs=None, finish_reason=None, stop_reason=None)


def _ended(index: int, end: End) -> ChunkChoice:
    choice = _chunk_choice(index, ChunkDelta())
    choice["finish_reason"] = finish_reason(end)
    choice["stop_reason"] = end.matched
    return choice
