"""Every kind of cache behind the whole engine: one text in a crowd, on hits, with drafts and alone, and that of
`transformers`.
"""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import torch
from transformers import PreTrainedConfig, PreTrainedModel

from config.settings import Settings
from engine.build import Built, build
from engine.model.runner import ModelRunner
from engine.request import OutputToken, Request, Sampling, Stopping
from engine.stats import Snapshot
from tests.models.architectures import ARCHITECTURES, EXPERTS, OTHERS, VOCABULARY_SIZE, make_model, plain_logits
from tests.models.drafted import Careless
from tests.models.recurrent import RECURRENT
from tests.tiny import make_tiny_tokenizer

KINDS: dict[str, Callable[[], PreTrainedConfig]] = {
    **{name: ARCHITECTURES[name] for name in ("llama", "mistral-window", "phi3-window", "gemma2", "gemma3", "cohere2")},
    **{name: OTHERS[name] for name in ("deepseek-v2", "deepseek-v3", "llama4", "gemma3n")},
    **{name: EXPERTS[name] for name in ("mixtral", "qwen3-moe", "olmoe", "gpt-oss")},
    **RECURRENT,
}
FORGETFUL = {"mistral-window", "phi3-window", "llama4"}  # all that they keep of these prompts has room at once
STEM = 48  # tokens that all prompts have in common
LENGTHS = (60, 150, 71, 49, 75)
NUM_OUTPUTS = 40
NUM_BLOCKS = 12  # of 16 positions in every group: the longest request, and nothing more
GREEDY, SEEDED = Sampling(seed=0, temperature=0.0), Sampling(seed=7, temperature=0.8)
CLOSE = 1e-4  # of the largest logit: what two kinds of arithmetic may take for a tie


@dataclass(frozen=True)
class Asked:
    """One prompt, and the client's guess at its answer."""

    prompt: tuple[int, ...]
    sampling: Sampling
    prediction: tuple[int, ...] = ()


@dataclass(frozen=True)
class Told:
    """What each prompt was answered, and the engine at the end."""

    answers: list[list[OutputToken]]
    last: Snapshot


def prompts() -> list[Asked]:
    """Prompts with one beginning, every other one answered at random."""
    generator = torch.Generator().manual_seed(5)
    stem, *tails = (
        tuple(torch.randint(3, VOCABULARY_SIZE, (length,), generator=generator).tolist())
        for length in (STEM, *(length - STEM for length in LENGTHS))
    )
    return [Asked((*stem, *tail), SEEDED if number % 2 else GREEDY) for number, tail in enumerate(tails)]


def guessed(asked: list[Asked], answers: list[list[OutputToken]]) -> list[Asked]:
    """The same with guesses: a right one, one that is wrong now and then, and one that lacks some tokens."""
    known = [tuple(token.id for token in answer) for answer in answers]
    bent = [
        known[0],
        tuple(id if place % 5 else (id + 1) % VOCABULARY_SIZE for place, id in enumerate(known[1])),
        (*known[2][:7], *known[2][11:]),
        tuple(id if place % 3 else 3 for place, id in enumerate(known[3])),
        known[4],
    ]
    return [replace(each, prediction=guess) for each, guess in zip(asked, bent, strict=True)]


async def serve(built: Built, rounds: Iterable[list[Asked]]) -> Told:
    """Answer every prompt of a round at once, one round after the other."""
    engine = built.engine
    answers = []
    async with asyncio.TaskGroup() as group:
        group.create_task(engine.run())
        for number, round_ in enumerate(rounds):
            named = [(f"{number}-{index}", prompt) for index, prompt in enumerate(round_)]
            answers.extend(await asyncio.gather(*(answer(built, *each) for each in named)))
        last = engine.snapshot()
        engine.stop()
    return Told(answers, last)


async def answer(built: Built, name: str, asked: Asked) -> list[OutputToken]:
    """The outputs with their log-probabilities."""
    request = Request(
        name, asked.prompt, asked.sampling, Stopping(max_tokens=NUM_OUTPUTS), 1, 2, prediction=asked.prediction
    )
    async with built.engine.open(request) as deltas:
        return [token async for delta in deltas for token in delta.tokens]


def told(folder: Path, rounds: list[list[Asked]], *, max_draft_tokens: int = 0, **cache: object) -> Told:
    """Serve the model in the folder with float32 arithmetic."""
    limits = {"max_step_positions": 40, "max_sequences": 3, "reserved_outputs": 0}
    tree = {
        "model": {"path": str(folder), "num_threads": 1, "weights": "float32", "max_context": 256},
        "cache": cache,
        "engine": {**limits, "max_draft_tokens": max_draft_tokens, "check_laws": True},
    }
    built = build(Settings.model_validate(tree), progress=lambda _: None)
    built.engine._pace = Careless()
    runner = built.engine._runner
    assert isinstance(runner, ModelRunner)
    try:
        return asyncio.run(serve(built, rounds))
    finally:
        runner.close()


def check_greedy(model: PreTrainedModel, prompt: tuple[int, ...], outputs: list[OutputToken]) -> None:
    """Each output is what plain `transformers` finds best behind what stands before it."""
    logits = plain_logits(model, [*prompt, *(token.id for token in outputs)])
    for index, token in enumerate(outputs):
        row = logits[len(prompt) + index - 1]
        assert row.max() - row[token.id] <= CLOSE * row.abs().max(), f"output {index} is {token.id}"


@pytest.mark.parametrize("kind", KINDS)
def test_a_text_is_that_of_transformers_whatever_befalls_its_cache(kind: str, tmp_path: Path) -> None:
    model = make_model(KINDS[kind](), seed=3)
    model.save_pretrained(tmp_path)
    make_tiny_tokenizer(tmp_path)

    alone = told(tmp_path, [[asked] for asked in prompts()], num_blocks=4 * NUM_BLOCKS, prefix_caching=False)
    again = guessed(prompts(), alone.answers)
    crowded = told(tmp_path, [prompts(), again], num_blocks=NUM_BLOCKS, max_draft_tokens=6)

    for asked, outputs in zip(prompts(), alone.answers, strict=True):
        assert len(outputs) == NUM_OUTPUTS
        if asked.sampling is GREEDY:
            check_greedy(model, asked.prompt, outputs)
    assert crowded.answers == [*alone.answers, *alone.answers]
    drafts = crowded.last.drafts["prediction"]
    assert 0 < drafts.kept < drafts.tokens
    assert crowded.last.prefix_hits > 0
    assert crowded.last.preemptions > 0 or kind in FORGETFUL or not crowded.last.groups
