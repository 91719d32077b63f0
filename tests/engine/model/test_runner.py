import pickle
from collections.abc import Iterator
from typing import Protocol

import pytest
import torch
from transformers import PreTrainedModel

from engine.cache.layout import CacheGroup, Layout, RowShape
from engine.cache.states import StateStorage
from engine.cache.storage import KVStorage
from engine.errors import ModelUnsupported
from engine.model.answer import LogitsNotFinite
from engine.model.forward import Forward
from engine.model.kernels.native import Library
from engine.model.native_forward import NativeForward
from engine.model.packed_forward import PackedForward
from engine.model.pool import HiddenNotFinite
from engine.model.runner import ModelForward, ModelRunner, make_runner
from engine.request import Sampling
from engine.step import Choose, Chunk, Plan, Pool, Score, StepResult, Table, Ticket
from tests.models.architectures import ARCHITECTURES, make_model
from tests.models.support import every_kernels, make_forward, make_native, make_packed
from tests.results import logprob_of, token_of

GREEDY, SEEDED = Sampling(seed=0, temperature=0.0), Sampling(seed=5, temperature=1.3)
BLOCK_SIZE = 16
PROMPT = tuple(3 + at * 7 % 90 for at in range(50))


class Make(Protocol):
    """Makes a forward pass of one kind over a model."""

    def __call__(self, model: PreTrainedModel, /) -> Forward | NativeForward | PackedForward: ...


def on_torch(model: PreTrainedModel, /) -> Forward:
    return make_forward(model, block_size=BLOCK_SIZE, max_rows=64)


def straight(model: PreTrainedModel, /) -> NativeForward:
    return make_native(model, every_kernels()[-1], weights="bfloat16", cache="bfloat16", max_rows=64)


def packed(model: PreTrainedModel, /) -> PackedForward:
    return make_packed(model, every_kernels()[-1], max_rows=64)


@pytest.fixture(scope="module", params=[on_torch, straight, packed])
def make(request: pytest.FixtureRequest) -> Make:
    chosen: Make = request.param
    return chosen


@pytest.fixture(scope="module")
def runner(make: Make) -> Iterator[ModelRunner]:
    made = make_runner(lambda: make(tiny()))
    yield made
    made.close()


def tiny() -> PreTrainedModel:
    return make_model(ARCHITECTURES["llama"]())


def chunk(
    name: str,
    base: int,
    tokens: tuple[int, ...],
    blocks: range,
    *,
    sampling: Sampling = GREEDY,
    output_index: int | None = 0,
    score: Score | None = None,
    pool: Pool | None = None,
) -> Chunk:
    choose = None if output_index is None else Choose(sampling, 0, output_index, top_logprobs=2)
    return Chunk(Ticket(name, 0, 1, base, (Table(tuple(blocks)),)), tokens, choose, score, pool=pool)


async def execute(runner: ModelRunner, *chunks: Chunk) -> StepResult:
    return await runner.execute(Plan(7, chunks))


async def generate(runner: ModelRunner, blocks: range, sampling: Sampling, *, sizes: tuple[int, ...]) -> list[object]:
    """A few outputs' tokens and logprobs, the prompt computed in chunks of `sizes`."""
    done = 0
    for size in sizes[:-1]:
        part = chunk("s", done, PROMPT[done : done + size], blocks, output_index=None)
        await execute(runner, part)
        done += size
    tokens = PROMPT[done:]
    outputs: list[object] = []
    for index in range(6):
        result = await execute(runner, chunk("s", done, tokens, blocks, sampling=sampling, output_index=index))
        done += len(tokens)
        token = token_of(result.chunks[0])
        assert token is not None
        tokens = (token,)
        outputs.append((token, logprob_of(result.chunks[0])))
    return outputs


@pytest.mark.anyio
async def test_a_step_answers_each_chunk_in_order_and_says_where_the_time_went(runner: ModelRunner) -> None:
    first, second = chunk("a", 0, PROMPT, range(7)), chunk("b", 0, PROMPT[:9], range(7, 9), output_index=None)

    result = await execute(runner, first, second)

    assert result.number == 7
    assert [each.ticket for each in result.chunks] == [first.ticket, second.ticket]
    assert token_of(result.chunks[0]) is not None
    assert token_of(result.chunks[1]) is None
    assert [stage for stage, _ in result.seconds] == ["model", "masks", "sample"]
    assert all(seconds >= 0 for _, seconds in result.seconds)


@pytest.mark.anyio
async def test_plans_and_results_can_be_pickled(runner: ModelRunner) -> None:
    plan = Plan(1, (chunk("a", 0, PROMPT, range(7), score=Score(0, PROMPT[1:4], 2)),))

    result = await runner.execute(pickle.loads(pickle.dumps(plan)))

    assert pickle.loads(pickle.dumps(result)) == result


@pytest.mark.anyio
@pytest.mark.parametrize("sampling", [GREEDY, SEEDED])
async def test_outputs_do_not_depend_on_chunks_or_blocks(runner: ModelRunner, sampling: Sampling) -> None:
    whole = await generate(runner, range(8), sampling, sizes=(50,))

    assert await generate(runner, range(20, 10, -1), sampling, sizes=(1, 30, 19)) == whole
    assert len(set(map(str, whole))) > 2


@pytest.mark.anyio
async def test_outputs_do_not_depend_on_the_neighbours(runner: ModelRunner) -> None:
    alone = (await execute(runner, chunk("a", 0, PROMPT, range(7), sampling=SEEDED))).chunks[0]
    others = [chunk(str(at), 0, PROMPT[at : at + 2], range(8 + at, 9 + at)) for at in range(5)]

    among = await execute(runner, *others[:3], chunk("a", 0, PROMPT, range(7), sampling=SEEDED), *others[3:])

    assert among.chunks[3] == alone


@pytest.mark.anyio
async def test_scores_are_the_logprobs_that_choosing_would_have_reported(runner: ModelRunner) -> None:
    first = (await execute(runner, chunk("a", 0, PROMPT, range(7)))).chunks[0]
    token = token_of(first)
    assert token is not None
    scored = chunk("b", 0, (*PROMPT, token), range(7, 14), score=Score(49, (token,), 2))

    (result,) = (await execute(runner, scored)).chunks

    assert result.scores == (logprob_of(first),)


async def pooled(runner: ModelRunner, blocks: range, sizes: tuple[int, ...], *others: Chunk) -> bytes:
    """The sum of the prompt's hidden states, computed in chunks of `sizes`, each behind the others."""
    done, total = 0, b""
    for size in sizes:
        tokens = PROMPT[done : done + size]
        part = chunk("pooled", done, tokens, blocks, output_index=None, pool=Pool(done, total))
        total = (await execute(runner, *others, part)).chunks[-1].pooled
        done += size
    return total


@pytest.mark.anyio
async def test_a_sum_of_hidden_states_does_not_depend_on_chunks_or_neighbours(runner: ModelRunner) -> None:
    pooling = chunk("a", 0, PROMPT[:3], range(8, 9), output_index=None, pool=Pool(1))
    choosing = chunk("b", 0, PROMPT[:5], range(9, 10), score=Score(0, (3,), 0))

    whole = await pooled(runner, range(7), (50,))

    assert await pooled(runner, range(20, 10, -1), (1, 30, 19)) == whole
    assert await pooled(runner, range(20, 10, -1), (17, 33), pooling, choosing) == whole
    assert len(whole) == 8 * tiny().config.hidden_size


@pytest.mark.anyio
async def test_hidden_states_are_those_that_plain_transformers_gives_its_head(runner: ModelRunner) -> None:
    model = tiny()
    with torch.inference_mode():
        plain = model(input_ids=torch.tensor([PROMPT[:30]]), output_hidden_states=True).hidden_states[-1][0].double()
    last = chunk("last", 0, PROMPT[:30], range(7), output_index=None, pool=Pool(29))
    mean = chunk("mean", 0, PROMPT[:30], range(7, 14), output_index=None, pool=Pool(0))

    results = (await execute(runner, last, chunk("other", 0, PROMPT[:2], range(15, 16)), mean)).chunks

    tolerance = 1e-4 if isinstance(runner.forward, Forward | PackedForward) else 0.05  # of bfloat16 weights
    for result, wanted in ((results[0], plain[29]), (results[2], plain.sum(dim=0))):
        ours = torch.frombuffer(bytearray(result.pooled), dtype=torch.float64)
        assert (ours - wanted).abs().max() <= tolerance * wanted.abs().max()
    assert results[1].pooled == b""


@pytest.mark.anyio
async def test_a_model_whose_hidden_states_are_no_numbers_names_the_sequence(runner: ModelRunner) -> None:
    assert isinstance(runner.forward, Forward | NativeForward | PackedForward)
    with torch.inference_mode():
        runner.forward.storage.poison({5})

    with pytest.raises(HiddenNotFinite, match="sequence bad"):
        await execute(runner, chunk("bad", 8, (3,), range(5, 7), output_index=None, pool=Pool(8)))


@pytest.mark.anyio
async def test_a_model_that_gives_no_numbers_names_the_sequence(runner: ModelRunner) -> None:
    good = chunk("good", 0, PROMPT[:8], range(1))
    await execute(runner, good)
    assert isinstance(runner.forward, Forward | NativeForward | PackedForward)
    with torch.inference_mode():
        runner.forward.storage.poison({5})

    with pytest.raises(LogitsNotFinite, match="sequence bad"):
        await execute(runner, chunk("good", 7, PROMPT[7:8], range(1)), chunk("bad", 8, (3,), range(5, 7)))

    assert token_of((await execute(runner, good)).chunks[0]) is not None


@pytest.mark.anyio
async def test_a_new_life_of_the_worker_answers_as_the_old_one_did(make: Make) -> None:
    model = tiny()
    first = make_runner(lambda: make(model))
    before = await generate(first, range(8), SEEDED, sizes=(50,))
    first.close()

    second = make_runner(lambda: make(tiny()), incarnation=2)

    assert (first.incarnation, second.incarnation) == (1, 2)
    assert await generate(second, range(8), SEEDED, sizes=(20, 30)) == before
    second.close()


@pytest.mark.anyio
async def test_a_new_life_on_torch_can_take_the_old_one_s_model() -> None:
    model = tiny()
    first = make_runner(lambda: on_torch(model))
    before = await generate(first, range(8), SEEDED, sizes=(50,))
    first.close()

    second = make_runner(lambda: on_torch(model), incarnation=2)

    assert await generate(second, range(8), SEEDED, sizes=(50,)) == before
    second.close()


def test_a_cache_that_the_model_does_not_fit_is_refused_at_the_start() -> None:
    layout = Layout((CacheGroup((0, 1), RowShape(num_kv_heads=1, key_dim=16, value_dim=16, dtype="float32")),))
    storage = KVStorage(layout, num_units=4, block_size=8, device=torch.device("cpu"))

    with pytest.raises(ModelUnsupported, match="the first step failed"):
        make_runner(lambda: Forward(tiny(), storage, StateStorage(layout, num_slots=0), max_rows=8, num_threads=1))


def test_a_forward_pass_whose_first_step_fails_is_closed(monkeypatch: pytest.MonkeyPatch, make: Make) -> None:
    made: list[ModelForward] = []
    closed: list[ModelForward] = []

    def failing() -> ModelForward:
        forward = make(tiny())
        close = forward.close

        def close_and_tell() -> None:
            closed.append(forward)
            close()

        monkeypatch.setattr(forward, "run", lambda _: 1 // 0)
        monkeypatch.setattr(forward, "close", close_and_tell)
        made.append(forward)
        return forward

    with pytest.raises(ModelUnsupported, match="the first step failed with ZeroDivisionError"):
        make_runner(failing)

    assert closed == made != []


@pytest.mark.parametrize("make_one", [straight, packed])
def test_a_closed_runner_leaves_no_native_threads(monkeypatch: pytest.MonkeyPatch, make_one: Make) -> None:
    closed: list[int] = []
    close_pool = Library.close_pool

    def close_and_tell(library: Library, pool: int) -> None:
        closed.append(pool)
        close_pool(library, pool)

    monkeypatch.setattr(Library, "close_pool", close_and_tell)
    runner = make_runner(lambda: make_one(tiny()))
    assert isinstance(runner.forward, NativeForward | PackedForward)

    runner.close()

    assert closed == [runner.forward.pool]


@pytest.mark.parametrize("make_one", [on_torch, packed])
def test_the_worker_s_threads_are_its_own_matter(make_one: Make) -> None:
    torch.set_num_threads(2)
    runner = make_runner(lambda: make_one(tiny()))

    assert runner._thread.run(torch.get_num_threads) == 1
    assert torch.get_num_threads() == 2
    runner.close()
