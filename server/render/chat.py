"""Chat answers: whole, and chunk by chunk. Both are made of the same pieces."""

from collections.abc import Iterable
from typing import assert_never

from engine.request import Delta, End, Usage
from server.errors import ApiError
from server.events import DONE, Event, event
from server.prompt import Prompt
from server.reading.pieces import CallArguments, CallBegun, Piece, PlainReader, Reasoning, Text, joined
from server.reading.readings import MakeReader, Readings, Said
from server.render.logprobs import chat_logprobs, scores_by_id
from server.render.reply import Reply, finish_reason, usage_body
from server.streams import Arrival, Parts
from server.wire.chat_bodies import (
    AssistantMessage,
    ChatChoice,
    ChatChunk,
    ChatCompletion,
    ChunkChoice,
    ChunkDelta,
    FunctionCallBody,
    FunctionCallDelta,
    LogprobsBody,
    ToolCallBody,
    ToolCallDelta,
)


class Chat:
    """Makes the parts of one answer. Streamed, each choice is its role, its pieces and its reason."""

    def __init__(self, reply: Reply, prompt: Prompt, make_reader: MakeReader = PlainReader) -> None:
        self._reply = reply
        self._prompt = prompt
        self._readings = Readings(make_reader)
        self._begun: set[int] = set()
        self._num_listed: dict[int, int] = {}  # by choice: tokens whose log-probabilities have been sent
        self._usages: dict[tuple[int, int], Usage] = {}

    @property
    def id(self) -> str:
        """The answer's."""
        return self._reply.id

    # -- whole ------------------------------------------------------------------------------------

    def whole(self, parts: Parts) -> ChatCompletion:
        """The whole answer."""
        reply = self._reply
        for part in parts.values():
            self._readings.read(part)
        body = ChatCompletion(
            id=reply.id,
            object="chat.completion",
            created=reply.created,
            model=reply.model,
            system_fingerprint=reply.fingerprint,
            choices=[self._whole_choice(part) for part in parts.values()],
            usage=usage_body(
                {key: part.end.usage for key, part in parts.items() if part.end},
                num_reasoning=self._readings.num_reasoning,
            ),
        )
        if reply.shows_tokens:
            body["prompt_token_ids"] = list(self._prompt.tokens)
        scores = next((part.prompt_logprobs for part in parts.values()), None)
        if scores is not None and reply.prompt_logprobs is not None:
            body["prompt_logprobs"] = scores_by_id(scores, reply.prompt_logprobs, reply.vocabulary)
        return body

    def _whole_choice(self, part: Delta) -> ChatChoice:
        assert part.end is not None, "a choice that was read to its end has one"
        said = self._readings.said[part.choice]
        choice = ChatChoice(
            index=part.choice,
            message=_message(said),
            logprobs=self._listed(said, 0),
            finish_reason=finish_reason(part.end, calls=bool(said.calls)),
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
        chunks += [self._chunk([output]) for output in self._outputs(delta)]
        if delta.end is not None:
            self._usages[arrival.prompt, delta.choice] = delta.end.usage
            chunks.append(self._chunk([self._ended(delta.choice, delta.end)]))
        return map(event, chunks)

    def last(self) -> Iterable[Event]:
        """The usage, if asked for, and the mark of the end."""
        if not self._reply.shows_usage:
            return (DONE,)
        chunk = self._chunk([])
        chunk["usage"] = usage_body(self._usages, num_reasoning=self._readings.num_reasoning)
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

    def _outputs(self, delta: Delta) -> list[ChunkChoice]:
        """What the model wrote, piece by piece. The first text, or else what is first, has the tokens beside it."""
        changes = [_change(piece) for piece in joined(self._readings.read(delta))]
        listed = self._newly_listed(delta.choice)
        ids = _ids(delta) if self._reply.shows_tokens else []
        if not changes and (ids or (listed and listed["content"])):
            changes = [ChunkDelta(content="")]
        outputs = [_chunk_choice(delta.choice, change) for change in changes]
        if outputs:
            first = next((output for output in outputs if "content" in output["delta"]), outputs[0])
            first["logprobs"] = listed
            if self._reply.shows_tokens:
                first["token_ids"] = ids
        return outputs

    def _newly_listed(self, choice: int) -> LogprobsBody | None:
        """The log-probabilities of the tokens that are known to be content's since the last delta."""
        said = self._readings.said[choice]
        start, self._num_listed[choice] = self._num_listed.get(choice, 0), len(said.places.content)
        return self._listed(said, start)

    def _listed(self, said: Said, start: int) -> LogprobsBody | None:
        """The log-probabilities of the content's tokens from number `start` on."""
        listed = chat_logprobs(said.places.content[start:], self._reply)
        if listed is not None and self._reply.shows_tokens:
            for entry, number in zip(listed["content"], said.places.numbers[start:], strict=True):
                entry["index"] = number
        return listed

    def _ended(self, index: int, end: End) -> ChunkChoice:
        choice = _chunk_choice(index, ChunkDelta())
        choice["finish_reason"] = finish_reason(end, calls=bool(self._readings.said[index].calls))
        choice["stop_reason"] = end.matched
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


# -- parts ----------------------------------------------------------------------------------------


def _message(said: Said) -> AssistantMessage:
    """The answer. One that is calls alone has no content."""
    text = "".join(said.text)
    message = AssistantMessage(role="assistant", content=text if text or not said.calls else None, refusal=None)
    if said.reasoning:
        message["reasoning_content"] = "".join(said.reasoning)
    if said.calls:
        message["tool_calls"] = [
            ToolCallBody(
                id=begun.id,
                type="function",
                function=FunctionCallBody(name=begun.name, arguments="".join(arguments)),
            )
            for begun, arguments in said.calls.values()
        ]
    return message


def _change(piece: Piece) -> ChunkDelta:
    """What a piece adds to a message."""
    match piece:
        case Text(text):
            return ChunkDelta(content=text)
        case Reasoning(text):
            return ChunkDelta(reasoning_content=text)
        case CallBegun(number, id, name):
            function = FunctionCallDelta(name=name, arguments="")
            return ChunkDelta(tool_calls=[ToolCallDelta(index=number, id=id, type="function", function=function)])
        case CallArguments(number, text):
            return ChunkDelta(tool_calls=[ToolCallDelta(index=number, function=FunctionCallDelta(arguments=text))])
    assert_never(piece)


def _ids(delta: Delta) -> list[int]:
    return [token.id for token in delta.tokens]


def _chunk_choice(index: int, delta: ChunkDelta) -> ChunkChoice:
    return ChunkChoice(index=index, delta=delta, logprobs=None, finish_reason=None, stop_reason=None)
