from dataclasses import replace

import pytest

from engine.errors import EngineStopped
from engine.request import Delta, End, FinishReason, Request, Stopping, Usage
from engine.sequence import Sequence, State
from engine.step import Advance, Chosen, Plan, StepResult, Table, Ticket
from tests.answer import Answer, answer
from tests.laws.shape import Shape
from tests.parts import GREEDY, Parts, a_request

LONG = Shape(num_blocks=16, block_size=2, max_context=32)
EUROS = (8, 9, 10)  # the tokens of one euro sign


def serve(request: Request, shape: Shape = LONG) -> tuple[Sequence, list[Advance], Answer]:
    """Run one request to its end; what it was given, and what it should be given."""
    parts = Parts(shape)
    sequence = parts.run(request)
    advances: list[Advance] = []
    for _ in range(50):
        if sequence.state is State.FINISHED:
            break
        advances.extend(parts.step().advances)
    assert sequence.state is State.FINISHED
    return sequence, advances, answer(request, 0, context_length=shape.context_length)


def deltas_of(advances: list[Advance]) -> list[Delta]:
    return [advance.delta for advance in advances if advance.delta is not None]


def chosen(plan: Plan, *tokens: int) -> StepResult:
    """A result in which every chunk chooses the token at its place."""
    parts = Parts(LONG)
    result = parts.runner.compute(plan)
    chunks = tuple(replace(chunk, chosen=(Chosen(token),)) for chunk, token in zip(result.chunks, tokens, strict=True))
    return replace(result, chunks=chunks)


def run_with(request: Request, *tokens: int) -> list[Advance]:
    """Run a request whose model chooses exactly these tokens."""
    parts = Parts(LONG)
    parts.run(request)
    advances: list[Advance] = []
    for token in tokens:
        plan = parts.issue()
        advances.extend(parts.apply(plan, chosen(plan, token)).advances)
    return advances


def end_of(advances: list[Advance]) -> End:
    end = deltas_of(advances)[-1].end
    assert end is not None
    return end


# -- marks ------------------------------------------------------------------------------------


def test_a_decoding_sequence_rests_one_position_behind_what_is_accepted() -> None:
    parts = Parts(LONG)
    sequence = parts.run(a_request((2, 3, 4), max_tokens=9))

    for outputs in (1, 2, 3):
        parts.step()
        assert sequence.ledger.computed == sequence.ledger.accepted - 1 == 3 + outputs - 1


def test_a_request_that_chooses_nothing_ends_with_all_its_prompt_computed() -> None:
    sequence, advances, expected = serve(a_request((2, 3, 4, 5), max_tokens=0, prompt_logprobs=1))

    assert (sequence.ledger.computed, sequence.ledger.accepted) == (4, 4)
    assert [delta.prompt_logprobs for delta in deltas_of(advances)] == [expected.prompt_logprobs]
    assert end_of(advances) == End(FinishReason.LENGTH, Usage(4, 0, 0))


# -- what fits and what does not --------------------------------------------------------------


@pytest.mark.parametrize(
    "change",
    [
        lambda ticket: replace(ticket, epoch=ticket.epoch + 1),
        lambda ticket: replace(ticket, incarnation=ticket.incarnation + 1),
        lambda ticket: replace(ticket, base=ticket.base - 1),
        lambda ticket: replace(ticket, sequence="another/0"),
        lambda ticket: replace(ticket, tables=(Table((7,)),)),
    ],
    ids=["epoch", "incarnation", "base", "sequence", "tables"],
)
def test_a_result_that_does_not_fit_is_dropped_whole_and_its_sequence_starts_again(change: object) -> None:
    assert callable(change)
    parts = Parts(LONG)
    sequence = parts.run(a_request((2, 3, 4), max_tokens=9, prompt_logprobs=0))
    parts.step()
    tokens, scores, accepted = list(sequence.tokens), list(sequence.prompt_logprobs), sequence.ledger.accepted
    plan = parts.issue()
    result = parts.runner.compute(plan)
    stale: Ticket = change(result.chunks[0].ticket)

    outcome = parts.apply(plan, replace(result, chunks=(replace(result.chunks[0], ticket=stale),)))

    assert outcome.advances == ()
    assert (sequence.tokens, sequence.prompt_logprobs, sequence.ledger.accepted) == (tokens, scores, accepted)
    assert (sequence.state, sequence.held.anything, sequence.ledger.planned) == (State.WAITING, False, 0)
    assert parts.stats.rollbacks == {"stale": 1}


def test_a_result_of_an_earlier_life_of_the_worker_is_dropped() -> None:
    parts = Parts(LONG)
    sequence = parts.run(a_request())
    plan = parts.issue()
    parts.incarnation += 1

    assert parts.apply(plan).advances == ()
    assert sequence.num_outputs == 0


def test_results_in_each_others_place_are_dropped() -> None:
    parts = Parts(LONG)
    first, second = parts.run(a_request((2, 3), id="first")), parts.run(a_request((4, 5), id="second"))
    plan = parts.issue()
    result = parts.runner.compute(plan)

    outcome = parts.apply(plan, replace(result, chunks=result.chunks[::-1]))

    assert outcome.advances == ()
    assert first.num_outputs == second.num_outputs == 0


def test_a_dropped_step_chooses_the_same_token_when_it_is_run_again() -> None:
    parts = Parts(LONG)
    sequence = parts.run(a_request((2, 3, 4), max_tokens=3))
    plan = parts.issue()
    stale = parts.runner.compute(plan)
    parts.incarnation += 1
    parts.apply(plan, stale)

    while sequence.state is not State.FINISHED:
        parts.step()

    expected = answer(sequence.request, 0, context_length=LONG.context_length)
    assert sequence.tokens[3:] == [token.id for token in expected.tokens]


# -- the one cut ------------------------------------------------------------------------------


def test_length_ends_a_sequence_with_all_it_has() -> None:
    _, advances, expected = serve(a_request((2, 3, 4), max_tokens=5))
    deltas = deltas_of(advances)

    assert "".join(delta.text for delta in deltas) == expected.text
    assert tuple(token for delta in deltas for token in delta.tokens) == expected.tokens
    assert end_of(advances) == End(FinishReason.LENGTH, Usage(3, 0, 5))


def test_an_end_of_the_model_is_counted_and_has_no_text() -> None:
    request = a_request((2, 3), stopping=Stopping(eos_ids=frozenset({0})))

    advances = run_with(request, 2, 0)

    assert end_of(advances) == End(FinishReason.STOP, Usage(2, 0, 2))
    assert [(token.id, token.in_text) for delta in deltas_of(advances) for token in delta.tokens] == [
        (2, True),
        (0, False),
    ]


def test_a_stop_token_of_the_client_is_named() -> None:
    request = a_request((2, 3), stopping=Stopping(token_ids=frozenset({4})))

    advances = run_with(request, 2, 4)

    assert end_of(advances).matched == 4
    assert "".join(delta.text for delta in deltas_of(advances)) == "a"


def test_a_stop_string_cuts_text_but_not_tokens_and_usage() -> None:
    request = a_request((2, 3), stopping=Stopping(strings=("bc",)))

    advances = run_with(request, 2, 3, 4)
    deltas = deltas_of(advances)

    assert "".join(delta.text for delta in deltas) == "a"
    assert [token.id for delta in deltas for token in delta.tokens] == [2, 3, 4]
    assert [token.in_text for delta in deltas for token in delta.tokens] == [True, False, False]
    assert end_of(advances) == End(FinishReason.STOP, Usage(2, 0, 3), matched="bc")
    assert advances[-1].publish_upto == advances[-1].marks.accepted == 5


def test_no_stop_string_counts_before_there_are_enough_outputs() -> None:
    request = a_request((2, 3), stopping=Stopping(strings=("b",), min_tokens=3))

    advances = run_with(request, 3, 3, 3)

    assert "".join(delta.text for delta in deltas_of(advances)) == "bb"
    assert end_of(advances).matched == "b"


def test_what_may_become_a_stop_string_is_held_back() -> None:
    request = a_request((2, 3), stopping=Stopping(strings=("bb",), max_tokens=4))

    advances = run_with(request, 2, 3, 2, 3)

    assert [advance.delta.text if advance.delta else None for advance in advances] == ["a", None, "ba", "b"]
    assert [advance.publish_upto for advance in advances] == [3, 3, 5, 6]


def test_a_half_character_is_held_back_and_flushed_at_the_end() -> None:
    advances = run_with(a_request((2, 3), max_tokens=5), *EUROS, *EUROS[:2])

    assert [advance.delta.text if advance.delta else None for advance in advances] == [None, None, "€", None, "\ufffd"]


def test_a_prompt_that_ends_in_half_a_character_gives_none_of_itself_back() -> None:
    advances = run_with(a_request((2, 3, *EUROS[:2]), max_tokens=2), EUROS[2], 2)

    assert [advance.delta.text if advance.delta else None for advance in advances] == ["€", "a"]


# -- ends -------------------------------------------------------------------------------------


def test_an_end_gives_the_blocks_back_and_keeps_what_is_computed_for_others() -> None:
    parts = Parts(LONG)
    sequence = parts.run(a_request((2, 3, 4, 5, 2), max_tokens=1))

    parts.step()

    assert sequence.state is State.FINISHED
    counts = parts.tables.pool.counts()
    assert (counts.allocated, counts.shared, counts.cached) == (0, 0, 2)


def test_a_chunk_in_the_middle_of_a_prompt_gives_its_full_blocks_to_others() -> None:
    parts = Parts(Shape(max_step_positions=3, max_sequences=3))
    sequence = parts.run(a_request((2, 3, 4, 5, 2)))
    parts.step()

    parts.commit.end(sequence, FinishReason.ABORT)
    twin = parts.run(a_request((2, 3, 4, 5, 2), id="twin"))

    assert twin.cached_tokens == 2
    parts.check()


@pytest.mark.parametrize("num_steps", [0, 1, 3])
def test_an_end_from_outside_flushes_what_is_held_and_says_why(num_steps: int) -> None:
    parts = Parts(LONG)
    sequence = parts.run(a_request((2, 3), max_tokens=9))
    for token in EUROS[:2][:num_steps]:
        plan = parts.issue()
        parts.apply(plan, chosen(plan, token))
    stopped = EngineStopped()

    advance = parts.commit.end(sequence, FinishReason.ERROR, stopped)

    assert advance.delta is not None
    assert advance.delta.end == End(FinishReason.ERROR, sequence.usage, error=stopped)
    assert advance.delta.text == ("\ufffd" if num_steps else "")
    assert len(advance.delta.tokens) == sequence.num_outputs == min(num_steps, 2)
    assert advance.publish_upto == sequence.ledger.accepted
    parts.check()


def test_the_prompts_logprobs_come_once_and_whole() -> None:
    shape = Shape(num_blocks=16, max_context=32, max_step_positions=3, max_sequences=3)
    _, advances, expected = serve(a_request((2, 3, 4, 5, 2), prompt_logprobs=2), shape)

    scores = [delta.prompt_logprobs for delta in deltas_of(advances) if delta.prompt_logprobs]

    assert scores == [expected.prompt_logprobs]


def test_each_output_has_the_logprob_of_the_step_that_accepted_it() -> None:
    request = Request("request", (2, 3), GREEDY, Stopping(max_tokens=4), top_logprobs=2)
    _, advances, expected = serve(request)

    tokens = tuple(token for delta in deltas_of(advances) for token in delta.tokens)

    assert tokens == expected.tokens
    assert all(token.logprob and token.logprob.token == token.id for token in tokens)


# -- failures and times -----------------------------------------------------------------------


def test_a_suspect_is_cleared_once_it_is_past_the_failure_and_not_before() -> None:
    parts = Parts(Shape(max_step_positions=3, max_sequences=3))
    sequence = parts.run(a_request((2, 3, 4, 5, 2)))
    sequence.failures, sequence.failed_upto = 1, 5

    parts.step()
    assert sequence.failures == 1
    parts.step()
    assert sequence.failures == 0


def test_times_are_observed_for_each_output_once() -> None:
    parts = Parts(LONG)
    parts.run(a_request((2, 3), max_tokens=3))
    for now in (2.0, 2.5, 3.5):
        parts.now = now
        parts.step()

    first, gaps = parts.stats.time_to_first_token, parts.stats.inter_token_latency
    assert (sum(first.counts), first.sum) == (1, 2.0)
    assert (sum(gaps.counts), gaps.sum) == (2, 1.5)
