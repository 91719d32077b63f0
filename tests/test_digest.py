from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given

from engine.cache.layout import CacheGroup, Layout, Reach, RowShape
from engine.cache.sizing import CacheSizes
from engine.request import Request, Stopping
from engine.step import Choose, Chunk, ChunkResult, Plan, Score, StateUse, Table, Ticket
from tests.answer import answer
from tests.digest import FULL, LAYOUTS, DigestRunner
from tests.laws.requests import manners, prompts, stoppings
from tests.parts import GREEDY, a_request
from tests.results import logprob_of, token_of

UNITS = (3, 0, 2)
TOKENS = (2, 3, 4, 5, 6)
WINDOW_OF_THREE = Layout((CacheGroup((0,), RowShape(1, 1, 1, "float32"), Reach.WINDOW, 3),))


def chunk(
    start: int, stop: int, *, units: tuple[int, ...] = UNITS, first: int = 0, states: StateUse | None = None
) -> Chunk:
    return Chunk(
        Ticket("request/0", 0, 0, start, (Table(units, first),), states),
        TOKENS[start:stop],
        Choose(GREEDY, 0, 0, top_logprobs=2),
        Score(start, TOKENS[start + 1 : stop], 1),
    )


def compute(runner: DigestRunner, chunk: Chunk) -> ChunkResult:
    return runner.compute(Plan(1, (chunk,))).chunks[0]


def a_runner(layout: Layout = FULL) -> DigestRunner:
    return DigestRunner(layout, CacheSizes(num_units=4, num_slots=3), block_size=2)


def test_a_chunked_prompt_gives_what_the_whole_one_gives() -> None:
    whole, chunked = a_runner(), a_runner()
    expected = compute(whole, chunk(0, 5))

    compute(chunked, chunk(0, 2))
    last = compute(chunked, chunk(2, 5))

    assert (token_of(last), logprob_of(last)) == (token_of(expected), logprob_of(expected))
    assert last.scores == expected.scores[2:]


@pytest.mark.parametrize("position", range(4))
def test_every_slot_below_changes_what_comes_out(position: int) -> None:
    runner = a_runner()
    compute(runner, chunk(0, 4))
    expected = compute(runner, chunk(4, 5))
    place = UNITS[position // 2] * 2 + position % 2
    token, at, state = runner.memory[place]

    for wrong in ((token + 1, at, state), (token, at + 1, state), (token, at, state + 1), (-1, -1, -1)):
        runner.memory[place] = wrong
        assert logprob_of(compute(runner, chunk(4, 5))) != logprob_of(expected)


def test_a_read_through_another_blocks_table_changes_what_comes_out() -> None:
    runner = a_runner()
    compute(runner, chunk(0, 4))

    right = compute(runner, chunk(4, 5))
    wrong = compute(runner, chunk(4, 5, units=(0, 3, 2)))

    assert logprob_of(right) != logprob_of(wrong)


def test_a_window_sees_its_own_positions_and_none_behind_them() -> None:
    runner = a_runner(WINDOW_OF_THREE)
    compute(runner, chunk(0, 4))
    expected = compute(runner, chunk(4, 5))

    runner.poison([UNITS[0]])
    assert logprob_of(compute(runner, chunk(4, 5))) == logprob_of(expected)
    assert logprob_of(compute(runner, chunk(4, 5, units=UNITS[1:], first=1))) == logprob_of(expected)
    with pytest.raises(AssertionError, match="position 2 is behind block 2"):
        compute(runner, chunk(4, 5, units=UNITS[2:], first=2))
    runner.poison([UNITS[1]])
    assert logprob_of(compute(runner, chunk(4, 5))) != logprob_of(expected)


def test_a_checkpoint_is_the_state_before_its_position_and_a_start_from_it_changes_nothing() -> None:
    runner = a_runner(LAYOUTS["states"])
    expected = compute(runner, chunk(0, 5, states=StateUse(None, 0, ((2, 1), (4, 2)))))

    assert runner.states == [TOKENS, TOKENS[:2], TOKENS[:4]]
    assert logprob_of(compute(runner, chunk(2, 5, states=StateUse(1, 0)))) == logprob_of(expected)
    assert logprob_of(compute(runner, chunk(2, 5, states=StateUse(2, 0)))) != logprob_of(expected)


def test_poison_reaches_free_units_alone_and_is_new_each_time() -> None:
    runner = a_runner()
    compute(runner, chunk(0, 4))
    kept = list(runner.content(3))

    runner.poison([1], slots=[2])
    first, state = list(runner.content(1)), runner.states[2]
    runner.poison([1], slots=[2])

    assert runner.content(3) == kept
    assert first != runner.content(1)
    assert state != runner.states[2]


def test_a_seed_a_choice_and_an_output_index_each_change_what_is_drawn() -> None:
    request = replace(
        a_request((2, 3, 4), stopping=Stopping(max_tokens=12)), sampling=replace(GREEDY, temperature=2.0), num_choices=2
    )
    other_seed = replace(request, sampling=replace(request.sampling, seed=1))

    first = answer(request, 0, context_length=32)

    assert answer(request, 1, context_length=32).tokens != first.tokens
    assert answer(other_seed, 0, context_length=32).tokens != first.tokens


@given(prompt=prompts.filter(bool), stopping=stoppings, manner=manners)
def test_an_answers_tokens_stand_in_its_text_in_order(
    prompt: tuple[int, ...], stopping: Stopping, manner: tuple[Any, ...]
) -> None:
    sampling, _, top_logprobs, *_ = manner
    whole = answer(Request("request", prompt, sampling, stopping, 1, top_logprobs), 0, context_length=32)

    offsets = [token.text_offset for token in whole.tokens]
    assert offsets == sorted(offsets)
    assert all(offset <= len(whole.text) for offset in offsets)
    assert all((token.logprob is None) == (top_logprobs is None) for token in whole.tokens)
