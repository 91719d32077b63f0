"""Many requests of one real model, without drafts and with every kind of them: what must not change."""

import asyncio
import random
from collections.abc import Iterator, Sequence as Run
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from config.settings import Settings
from engine.build import Built, build
from engine.draft.drafts import DRAFT_MODEL
from engine.model.runner import ModelRunner
from engine.pace import DraftPrice, Pace, RoundPrice, Streams
from engine.request import Delta, End, OutputToken, Request, Sampling, Stopping
from engine.stats import DraftCounts, Snapshot
from server.trace import encode_message

NUM_PROMPTS = 60  # each way to choose meets each way to end once
NUM_OUTPUTS = 24
NUM_ALONE = 40  # of them with nobody beside them
NUM_GUESSED = 32  # of them that a draft model guesses for
KINDS = ("right", "half right", "shifted", "wrong")  # guesses
ROOMY = 2_000  # blocks of 16 positions
MAX_SEQUENCES = 16
OPENINGS = ("Tell me of", "List five kinds of", "Repeat three times:", "Write a line of code about", "What is")
THINGS = ("tides", "harbours", "sorting numbers", "the moon", "rye bread", "a lighthouse", "bees", "old maps")
BEGINNING = (  # of prompts where there is no chat template to give them one
    "The harbour master keeps a book in which he writes down who comes in, who leaves, how high the water stands and "
    "what the wind does. Somebody asks him every morning, and he answers as well as he can. "
)
SAMPLINGS = (
    Sampling(seed=0, temperature=0.0),
    Sampling(seed=1, temperature=0.8, top_p=0.9),
    Sampling(seed=0, temperature=0.0, frequency_penalty=0.6, presence_penalty=0.2),
    Sampling(seed=2, temperature=1.1, top_k=40, repetition_penalty=1.2),
    Sampling(seed=3, temperature=0.7, logit_bias=((30, 3.0), (260, -2.0))),
)


class Careless(Pace):
    """Takes every draft for free, so that none is left out."""

    def price_of_rounds(self) -> RoundPrice:
        """Nothing."""
        return RoundPrice(0.0, 0.0)

    def price_of_drafts(self, streams: Streams) -> DraftPrice:
        """Nothing."""
        return DraftPrice(0.0, 0.0, streams.count, None)


@dataclass(frozen=True)
class Told:
    """What one request was answered: its tokens with log-probabilities, its text, and how it ended."""

    tokens: tuple[OutputToken, ...]
    text: str
    reason: str
    matched: str | int | None


def requests(built: Built) -> list[Request]:
    """Different prompts, ways to choose and ways to end."""
    return [_request(built, number) for number in range(NUM_PROMPTS)]


def _request(built: Built, number: int) -> Request:
    text = f"{OPENINGS[number % len(OPENINGS)]} {THINGS[number % len(THINGS)]} ({number})."
    beginning = "" if built.tokenizer.chat_template else BEGINNING
    prompt = encode_message(built.tokenizer, beginning + text)
    stopping = Stopping(
        max_tokens=NUM_OUTPUTS,
        min_tokens=8 if number % 4 == 1 else 0,
        strings=(". ", "\n\n") if number % 3 == 1 else (),
        eos_ids=built.tokenizer.eos_ids if number % 2 else frozenset(),
    )
    sampling = SAMPLINGS[number % len(SAMPLINGS)]
    return Request(f"r{number}", tuple(prompt), sampling, stopping, top_logprobs=2)


def with_guesses(asked: Run[Request], told: Run[Told], kind: str) -> list[Request]:
    """The same requests, each with a guess at its answer: right, half right, or wrong in every place."""
    return [
        replace(request, prediction=_bent(tuple(token.id for token in answer.tokens), kind, number))
        for number, (request, answer) in enumerate(zip(asked, told, strict=True))
    ]


def _bent(tokens: tuple[int, ...], kind: str, number: int) -> tuple[int, ...]:
    chance = random.Random(number)
    match kind:
        case "right":
            return tokens
        case "half right":
            return tuple(token if chance.random() < 0.5 else chance.randrange(3, 300) for token in tokens)
        case "shifted":
            cut = chance.randrange(max(1, len(tokens)))
            return (*tokens[:cut], *(chance.randrange(3, 300) for _ in range(chance.randrange(4))), *tokens[cut + 2 :])
        case _:
            return tuple(token + 1 if token > 3 else token + 2 for token in tokens)


@contextmanager
def serving(path: Path, *, num_blocks: int, draft_model: Path | None = None) -> Iterator[Built]:
    """The model with a cache of so many blocks."""
    tree = {
        "model": {"path": str(path), "max_context": 512, "draft_path": str(draft_model) if draft_model else None},
        "cache": {"num_blocks": num_blocks},
        "engine": {"max_sequences": MAX_SEQUENCES, "max_waiting": NUM_PROMPTS, "reserved_outputs": 0},
    }
    built = build(Settings.model_validate(tree), progress=lambda _: None)
    built.engine._pace = Careless()
    runner = built.engine._runner
    assert isinstance(runner, ModelRunner)
    try:
        yield built
    finally:
        runner.close()


def told(built: Built, rounds: Run[Run[Request]]) -> tuple[list[list[Told]], Snapshot]:
    """Answer all requests of a round at once, one round after the other; the engine at the end."""

    async def tell() -> tuple[list[list[Told]], Snapshot]:
        async with asyncio.TaskGroup() as group:
            group.create_task(built.engine.run())
            answers = [await asyncio.gather(*(_answer(built, request) for request in asked)) for asked in rounds]
            last = built.engine.snapshot()
            built.engine.stop()
        return answers, last

    return asyncio.run(tell())


def check_drafts(path: Path, *, num_blocks: int) -> None:
    """No kind of draft changes anything of any answer, alone or in a crowd, with preemptions and hits.

    The crowd's cache has `num_blocks`: few enough that sequences give way to each other.
    """
    with serving(path, num_blocks=ROOMY) as roomy:
        asked = requests(roomy)
        (plain,), _ = told(roomy, [[replace(request, max_draft_tokens=0) for request in asked]])
    guessed = [with_guesses(asked, plain, kind) for kind in KINDS]
    with serving(path, num_blocks=num_blocks) as crowded:
        answers, last = told(crowded, [asked, *guessed])
    with serving(path, num_blocks=ROOMY) as roomy:
        alone, _ = told(roomy, [[request] for request in guessed[1][:NUM_ALONE]])

    for kind, found in zip(("none", *KINDS), answers, strict=True):
        assert found == plain, f"with {kind} guesses"
    assert [found for (found,) in alone] == plain[:NUM_ALONE]
    assert last.preemptions > 0, last
    assert last.prefix_hits > 0, last
    for source in ("prediction", "prompt_lookup"):
        assert 0 < last.drafts[source].kept < last.drafts[source].tokens, last.drafts


def check_draft_model(path: Path, draft_model: Path, *, num_blocks: int) -> DraftCounts:
    """A draft model changes nothing of any answer, alone or in a crowd, with preemptions and hits; what it did."""
    with serving(path, num_blocks=ROOMY) as roomy:
        asked = requests(roomy)[:NUM_GUESSED]
        (plain,), _ = told(roomy, [[replace(request, max_draft_tokens=0) for request in asked]])
    with serving(path, num_blocks=num_blocks, draft_model=draft_model) as crowded:
        answers, last = told(crowded, [asked, asked])
    with serving(path, num_blocks=ROOMY, draft_model=draft_model) as roomy:
        alone, by_itself = told(roomy, [[request] for request in asked[:NUM_ALONE]])

    for found in answers:
        assert found == plain
    assert [found for (found,) in alone] == plain[:NUM_ALONE]
    assert last.preemptions > 0, last
    assert last.prefix_hits > 0, last
    assert last.drafts[DRAFT_MODEL].tokens > 0, last.drafts
    return by_itself.drafts[DRAFT_MODEL]


async def _answer(built: Built, request: Request) -> Told:
    deltas: list[Delta] = []
    end: End | None = None
    async with built.engine.open(request) as stream:
        async for delta in stream:
            deltas.append(delta)
            end = delta.end
    assert end is not None, "every stream has its end"
    assert end.error is None, end.error
    tokens = tuple(token for delta in deltas for token in delta.tokens)
    return Told(tokens, "".join(delta.text for delta in deltas), end.reason.value, end.matched)
