"""Trace: run prompts through the real engine and show every step's marks and blocks."""

import asyncio
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from string import ascii_lowercase

from engine.build import Built
from engine.engine import Engine
from engine.request import FinishReason, Request, Sampling, Stopping, Usage
from engine.stats import CacheInfo, Snapshot, StepRecord
from engine.stream import DeltaStream
from engine.text import Tokenizer
from server import steps

MAX_PROMPTS = len(ascii_lowercase)  # each is named by a letter


@dataclass(frozen=True, slots=True)
class TraceOptions:
    """What is traced: all prompts at once, `repeat` times over. `raw` prompts skip the chat template.

    `prediction` is a guess at every answer.
    """

    prompts: tuple[str, ...]
    max_tokens: int
    repeat: int
    raw: bool
    as_json: bool
    prediction: str = ""


@dataclass(frozen=True, slots=True)
class _Ended:
    """What became of one request."""

    request_id: str
    text: str
    reason: FinishReason
    usage: Usage


def trace(built: Built, options: TraceOptions, write_line: Callable[[str], None]) -> None:
    """Write each step as it happens; as a table, then also what came of each request.

    Raises:
        EngineError: a prompt was refused, or the engine failed on it.
    """
    prompts = [tuple(encode_message(built.tokenizer, prompt, raw=options.raw)) for prompt in options.prompts]
    rounds = (_requests(prompts, built.tokenizer, options, number) for number in range(1, options.repeat + 1))
    longest = max(len(prompt) for prompt in prompts) + options.max_tokens
    info = built.engine.info
    num_positions = min(longest, info.context_length)

    def show(record: StepRecord) -> None:
        text_of = built.engine.vocabulary.text_of
        table = steps.lines(record, num_positions=num_positions, text_of=text_of)
        for line in steps.objects(record, info.cache) if options.as_json else table:
            write_line(line)

    built.engine.observe(show)
    if not options.as_json:
        for line in (*steps.legend(info.cache), steps.header(num_positions=num_positions)):
            write_line(line)
    ended = asyncio.run(_run(built.engine, rounds))
    if not options.as_json:
        for line in _summary(ended, info.cache, built.engine.snapshot()):
            write_line(line)


def _requests(
    prompts: list[tuple[int, ...]], tokenizer: Tokenizer, options: TraceOptions, number: int
) -> list[Request]:
    """One round: every prompt, named by its letter."""
    prediction = tuple(tokenizer.encode(options.prediction, add_special_tokens=False))
    return [
        Request(
            id=letter if options.repeat == 1 else f"{letter}{number}",
            prompt=prompt,
            sampling=Sampling(seed=0, temperature=0.0),
            stopping=Stopping(max_tokens=options.max_tokens, eos_ids=tokenizer.eos_ids),
            skip_special_tokens=False,
            prediction=prediction,
        )
        for letter, prompt in zip(ascii_lowercase, prompts, strict=False)
    ]


def encode_message(tokenizer: Tokenizer, prompt: str, *, raw: bool = False) -> list[int]:
    """A user's only message by the chat template; as it is where there is none, or if it is `raw`."""
    if raw or tokenizer.chat_template is None:
        return tokenizer.encode(prompt, add_special_tokens=True)
    return tokenizer.encode_chat(
        [{"role": "user", "content": prompt}],
        add_generation_prompt=True,
        continue_final_message=False,
        template_kwargs={},
    )


async def _run(engine: Engine, rounds: Iterable[list[Request]]) -> list[_Ended]:
    """The requests of a round run together, one round after the other."""
    ended: list[_Ended] = []
    async with asyncio.TaskGroup() as group:
        group.create_task(engine.run())
        try:
            for requests in rounds:
                streams = [engine.open(request) for request in requests]
                async with asyncio.TaskGroup() as readers:
                    reads = [
                        readers.create_task(_read(request, stream))
                        for request, stream in zip(requests, streams, strict=True)
                    ]
                ended += [read.result() for read in reads]
        finally:
            engine.stop()
    return ended


async def _read(request: Request, stream: DeltaStream) -> _Ended:
    text = ""
    async with stream:
        async for delta in stream:
            text += delta.text
            if delta.end is None:
                continue
            if delta.end.error is not None:
                raise delta.end.error
            return _Ended(request.id, text, delta.end.reason, delta.end.usage)
    raise AssertionError("a stream ends with an end")


def _summary(ended: list[_Ended], cache: CacheInfo, seen: Snapshot) -> Iterator[str]:
    yield ""
    for one in ended:
        usage = one.usage
        yield (
            f"{one.request_id}: {usage.prompt_tokens} prompt tokens, {usage.cached_tokens} of them found in the cache, "
            f"{usage.output_tokens} chosen, ended by {one.reason.value}: {one.text!r}"
        )
    blocks = seen.blocks
    checkpoints = f", {seen.slots.cached} checkpoints" if cache.num_slots else ""
    kept = f"{blocks.cached} blocks{checkpoints} kept for the next prompt"
    yield f"cache: {kept}, {blocks.free} free, {blocks.allocated} held"
