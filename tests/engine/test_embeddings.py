"""Embeddings through admission, plan and commit: what is pooled, what is found, what is computed again."""

from dataclasses import replace

import pytest

from engine.errors import EngineStopped
from engine.request import Delta, FinishReason, Pooling, Request, Stopping
from engine.sequence import Sequence, State
from engine.step import Chunk, Plan, Pool, Table, Ticket
from tests.answer import answer
from tests.laws.shape import Shape
from tests.parts import GREEDY, Parts, a_request

PROMPT = (2, 3, 4, 5, 2, 3, 4)
SHAPE = Shape(num_blocks=16, block_size=2, max_context=32)
SMALL_STEPS = Shape(num_blocks=16, block_size=2, max_context=32, max_step_positions=3, max_sequences=2)


def embedding_of(parts: Parts, sequence: Sequence) -> tuple[float, ...] | None:
    """Run a sequence to its end."""
    deltas: list[Delta] = []
    while sequence.state is not State.FINISHED:
        own = (advance.delta for advance in parts.step().advances if advance.sequence == sequence.id)
        deltas.extend(delta for delta in own if delta is not None)
    (delta,) = deltas
    assert (delta.text, delta.tokens, delta.end is not None) == ("", (), True)
    return delta.embedding


def expected(request: Request) -> tuple[float, ...] | None:
    return answer(request, 0, context_length=32).embedding


@pytest.mark.parametrize("pooling", Pooling)
@pytest.mark.parametrize("shape", [SHAPE, SMALL_STEPS], ids=["one step", "three steps"])
def test_an_embedding_comes_with_the_end_however_the_prompt_is_cut(pooling: Pooling, shape: Shape) -> None:
    parts = Parts(shape)
    request = a_request(PROMPT, pooling=pooling)

    sequence = parts.run(request)

    assert embedding_of(parts, sequence) == expected(request) is not None
    assert (sequence.ledger.computed, sequence.ledger.accepted) == (7, 7)


@pytest.mark.parametrize("pooling", Pooling)
def test_one_token_has_an_embedding(pooling: Pooling) -> None:
    parts = Parts(SHAPE)
    request = a_request((5,), pooling=pooling)

    assert embedding_of(parts, parts.run(request)) == expected(request) is not None


def test_two_poolings_differ() -> None:
    assert expected(a_request(PROMPT, pooling=Pooling.LAST)) != expected(a_request(PROMPT, pooling=Pooling.MEAN))


def test_a_chunk_says_which_positions_are_pooled_and_what_was_added_before() -> None:
    parts = Parts(SMALL_STEPS)
    sequence = parts.run(a_request(PROMPT, pooling=Pooling.MEAN))
    pools = []
    for _ in range(3):
        plan = parts.issue()
        pools.append(plan.chunks[0].pool)
        parts.apply(plan)
        assert pools[-1] is not None

    assert [pool and pool.first for pool in pools] == [0, 3, 6]
    assert [bool(pool and pool.sum) for pool in pools] == [False, True, True]
    assert sequence.pooled_upto == 7


def test_the_last_position_alone_is_pooled_where_that_is_asked_for() -> None:
    parts = Parts(SMALL_STEPS)
    parts.run(a_request(PROMPT, pooling=Pooling.LAST))
    pools = []
    for _ in range(3):
        plan = parts.issue()
        pools.append(plan.chunks[0].pool)
        parts.apply(plan)

    assert pools == [None, None, Pool(6)]


def test_the_last_state_may_stand_behind_a_hit_and_all_states_are_computed() -> None:
    parts = Parts(SHAPE)
    embedding_of(parts, parts.run(a_request(PROMPT, id="before", pooling=Pooling.MEAN)))
    last, mean = (a_request(PROMPT, id=each.value, pooling=each) for each in Pooling)

    hit, whole = parts.run(last), parts.run(mean)

    assert (hit.cached_tokens, whole.cached_tokens) == (6, 0)
    assert embedding_of(parts, hit) == expected(last)


def test_what_a_prompt_left_in_the_cache_serves_a_request_that_chooses() -> None:
    parts = Parts(SHAPE)
    embedding_of(parts, parts.run(a_request(PROMPT, id="before", pooling=Pooling.MEAN)))

    assert parts.run(a_request((*PROMPT, 2), id="behind")).cached_tokens == 6


def test_a_preempted_mean_adds_no_state_twice() -> None:
    parts = Parts(replace(SMALL_STEPS, prefix_caching=False))
    request = a_request(PROMPT, pooling=Pooling.MEAN)
    sequence = parts.run(request)
    parts.step()
    parts.step()
    before = sequence.pooled
    parts.preempt(sequence)
    parts.admit()

    plan = parts.issue()

    assert (sequence.ledger.computed, plan.chunks[0].pool) == (0, None)
    parts.apply(plan)
    assert sequence.pooled == before
    assert embedding_of(parts, sequence) == expected(request)


def test_a_preempted_mean_goes_on_from_its_own_blocks_as_far_as_it_has_added_them() -> None:
    parts = Parts(SMALL_STEPS)
    request = a_request(PROMPT, pooling=Pooling.MEAN)
    sequence = parts.run(request)
    parts.step()
    parts.step()
    parts.preempt(sequence)

    parts.admit()

    assert sequence.ledger.computed == 6
    assert sequence.cached_tokens == 0
    assert embedding_of(parts, sequence) == expected(request)


def test_a_result_that_does_not_fit_adds_nothing() -> None:
    parts = Parts(SMALL_STEPS)
    request = a_request(PROMPT, pooling=Pooling.MEAN)
    sequence = parts.run(request)
    plan = parts.issue()
    result = parts.runner.compute(plan)
    stale = replace(result.chunks[0], ticket=replace(result.chunks[0].ticket, epoch=7))

    parts.apply(plan, replace(result, chunks=(stale,)))

    assert (sequence.pooled, sequence.pooled_upto) == (b"", 0)
    assert embedding_of(parts, sequence) == expected(request)


def test_an_embedding_that_was_ended_has_no_values() -> None:
    parts = Parts(SMALL_STEPS)
    sequence = parts.run(a_request(PROMPT, pooling=Pooling.MEAN))
    parts.step()

    advance = parts.commit.end(sequence, FinishReason.ERROR, EngineStopped())

    assert advance.delta is not None
    assert advance.delta.embedding is None


def test_an_embedding_and_scores_come_together() -> None:
    parts = Parts(SMALL_STEPS)
    request = a_request(PROMPT, pooling=Pooling.MEAN, prompt_logprobs=1)
    wanted = answer(request, 0, context_length=32)
    sequence = parts.run(request)

    deltas = [advance.delta for _ in range(3) for advance in parts.step().advances if advance.delta is not None]

    assert sequence.state is State.FINISHED
    assert [(delta.embedding, delta.prompt_logprobs) for delta in deltas] == [
        (wanted.embedding, wanted.prompt_logprobs)
    ]


def test_an_embedding_has_no_outputs() -> None:
    with pytest.raises(AssertionError, match="no outputs"):
        Request("r", (2,), GREEDY, Stopping(max_tokens=1), pooling=Pooling.LAST)


def test_pooled_rows_are_counted_over_all_chunks() -> None:
    def chunk(start: int, count: int, pool: Pool | None = None) -> Chunk:
        return Chunk(Ticket("s", 0, 0, start, (Table(()),)), (2,) * count, pool=pool)

    plan = Plan(1, (chunk(0, 3), chunk(4, 3, Pool(5)), chunk(0, 1), chunk(0, 2, Pool(0))))

    assert plan.pooled_rows == (4, 5, 7, 8)
    assert [each.num_pooled for each in plan.chunks] == [0, 2, 0, 2]
