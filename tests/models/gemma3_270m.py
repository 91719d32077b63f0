"""A real model with windows, Gemma 3 270M: `make test-gemma3` fetches it and runs this, which takes a few minutes.

Its name keeps it out of `make test`.
"""

import asyncio
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from torch import Tensor
from transformers import AutoModelForCausalLM, GgufConfig

from config.settings import Settings
from engine.build import Built, build
from engine.model.gguf import quick_gguf
from engine.model.runner import ModelRunner
from engine.request import OutputToken, Request, Sampling, Stopping
from engine.stats import BlockCounts
from tests.models.drafted import check_drafts

MODEL = Path(__file__).parent.parent.parent / ".models" / "gemma-3-270m.Q4_K_M.gguf"
PASSAGE = Path(__file__).with_name("passage.txt")
WINDOW = 512
NUM_PROMPT = 4 * WINDOW
NUM_OUTPUTS = 24
BLOCK_SIZE = 16
STEP = 256
WINDOWED, WHOLE = 0, 1  # the groups, in the order in which the model's layers begin
TOLERANCE = 2e-3  # of log-probabilities, in float32 over thousands of positions


@dataclass(frozen=True)
class Story:
    """A long prompt, its answer, and the next turn of the conversation; the groups' blocks after each step."""

    prompt: tuple[int, ...]
    first: list[OutputToken]
    again: list[OutputToken]
    cached_tokens: int
    counts: list[tuple[BlockCounts, ...]]
    units: tuple[int, ...]  # of one block, by group


@pytest.fixture(scope="module")
def story() -> Story:
    tree = {
        "model": {"path": str(MODEL), "weights": "float32", "num_threads": 1},
        "cache": {"num_blocks": 1_000},
        "engine": {"max_step_positions": STEP, "check_laws": True},
    }
    built = build(Settings.model_validate(tree), progress=lambda _: None)
    runner = built.engine._runner
    assert isinstance(runner, ModelRunner)
    try:
        return asyncio.run(tell(built))
    finally:
        runner.close()


async def tell(built: Built) -> Story:
    """Serve the story."""
    engine, text = built.engine, PASSAGE.read_text()
    prompt = tuple(built.tokenizer.encode(f"{text}\n\n{text}\n\n{text}", add_special_tokens=True)[:NUM_PROMPT])
    assert len(prompt) == NUM_PROMPT
    counts: list[tuple[BlockCounts, ...]] = []
    engine.observe(lambda _: counts.append(engine.snapshot().groups))
    async with asyncio.TaskGroup() as group:
        group.create_task(engine.run())
        first, _ = await answer(built, prompt)
        num_steps = len(counts)
        again, cached = await answer(built, (*prompt, *(token.id for token in first)))
        engine.stop()
    return Story(prompt, first, again, cached, counts[:num_steps], engine._tables.layout.widths)


async def answer(built: Built, prompt: tuple[int, ...]) -> tuple[list[OutputToken], int]:
    """The outputs, and how many of the prompt's tokens were found in the cache."""
    request = Request("r", prompt, Sampling(seed=0, temperature=0.0), Stopping(max_tokens=NUM_OUTPUTS), 1, 0)
    tokens: list[OutputToken] = []
    async with built.engine.open(request) as deltas:
        async for delta in deltas:
            tokens.extend(delta.tokens)
            end = delta.end
    assert end is not None
    return tokens, end.usage.cached_tokens


@pytest.fixture(scope="module")
def logprobs(story: Story) -> Tensor:
    """What plain `transformers` says in float32 of every token of the story."""
    with quick_gguf():
        model = AutoModelForCausalLM.from_pretrained(
            MODEL.parent,
            gguf_file=MODEL.name,
            dtype=torch.float32,
            quantization_config=GgufConfig(dequantize=True),
            attn_implementation="eager",
        )
    tokens = [*story.prompt, *(token.id for token in (*story.first, *story.again))]
    with torch.inference_mode():
        logits: Tensor = model(input_ids=torch.tensor([tokens]), use_cache=False).logits[0]
    return logits.log_softmax(-1)


def test_a_prompt_of_several_windows_is_answered_as_by_transformers(story: Story, logprobs: Tensor) -> None:
    for index, token in enumerate((*story.first, *story.again)):
        expected = logprobs[len(story.prompt) + index - 1]
        assert token.logprob is not None
        assert token.id == int(expected.argmax())
        assert token.logprob.logprob == pytest.approx(float(expected.max()), abs=TOLERANCE)


def test_cached_bytes_stop_growing_in_windowed_layers(story: Story) -> None:
    most = ((WINDOW + STEP) // BLOCK_SIZE + 1) * story.units[WINDOWED]  # a window, and the next step's own
    windowed = [counts[WINDOWED].allocated for counts in story.counts]
    whole = [counts[WHOLE].allocated for counts in story.counts]
    served = range(WINDOW // STEP, len(story.counts) - 1)  # the last has given all of it back

    assert max(windowed[step] for step in served) <= most
    assert whole[-2] >= NUM_PROMPT // BLOCK_SIZE * story.units[WHOLE]
    assert whole[:-1] == sorted(whole[:-1])


def test_the_next_turn_computes_no_more_than_the_last_partial_block(story: Story) -> None:
    computed = NUM_PROMPT + NUM_OUTPUTS - 1  # the last output has no place in the cache yet

    assert story.cached_tokens == computed // BLOCK_SIZE * BLOCK_SIZE


def test_requests_are_answered_alike_with_any_drafts() -> None:
    check_drafts(MODEL, num_blocks=24)
