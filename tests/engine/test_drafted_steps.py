"""A draft through plan and commit, over the digest model: what stands, what is taken back, what nobody notices."""

from dataclasses import replace

import pytest

from engine.pace import Streams, load_of
from engine.request import FinishReason, Request, Sampling, Stopping
from engine.sequence import Sequence, State
from engine.step import Outcome, Plan, num_standing
from tests.answer import answer
from tests.digest import LAYOUTS, VOCABULARY_SIZE
from tests.laws.shape import Shape
from tests.parts import Parts, a_request, blocks_of

ROOMY = Shape(num_blocks=30, max_context=60, max_step_positions=20, max_logit_rows=20, max_draft_tokens=3)
RIGHT, HALF, WRONG = (replace(ROOMY, drafter=drafter) for drafter in ("right", "half right", "wrong"))
TIMES = 12  # outputs


def step(parts: Parts) -> tuple[Plan, Outcome]:
    """One step, after which the pace knows that time stands still."""
    parts.admit()
    plan = parts.issue()
    outcome = parts.apply(plan)
    parts.pace.observe(load_of(plan.chunks), 0.0)
    return plan, outcome


def decoding(shape: Shape, request: Request | None = None) -> tuple[Parts, Sequence]:
    """A sequence whose next step may hold drafts."""
    parts = Parts(shape)
    sequence = parts.run(request or a_request(max_tokens=TIMES))
    while parts.pace.price_of_drafts(Streams(1)) is None:
        step(parts)
    return parts, sequence


def served(shape: Shape, request: Request) -> tuple[list[Outcome], Parts, Sequence]:
    parts, sequence = decoding(shape, request)
    outcomes = []
    while sequence.state is not State.FINISHED:
        outcomes.append(step(parts)[1])
    return outcomes, parts, sequence


def test_drafts_are_planned_behind_the_owed_token_and_stand_if_they_are_right() -> None:
    parts, sequence = decoding(RIGHT)
    before = sequence.ledger.marks

    plan = parts.issue()

    (chunk,) = plan.chunks
    assert (chunk.num_drafts, chunk.source, chunk.num_logit_rows) == (3, "right", 4)
    assert sequence.ledger.planned == chunk.stop == before.computed + 1 + 3
    assert sequence.ledger.accepted == before.accepted
    parts.apply(plan)
    assert sequence.ledger.computed == before.computed + 4
    assert sequence.ledger.accepted == before.accepted + 4


def test_a_rejection_lowers_planned_to_what_stands_and_gives_surplus_blocks_back() -> None:
    parts, sequence = decoding(WRONG)
    before, held = sequence.ledger.marks, len(blocks_of(sequence))

    plan = parts.issue()
    planned_blocks = len(blocks_of(sequence))
    parts.apply(plan)

    assert planned_blocks > held
    assert sequence.ledger.computed == before.computed + 1
    assert not sequence.ledger.in_flight
    assert sequence.ledger.accepted == before.accepted + 1
    assert len(blocks_of(sequence)) == parts.tables.num_blocks_for(sequence.ledger.computed)
    assert parts.stats.positions.rejected == 3
    assert parts.stats.rollbacks["rejected"] == 1


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("drafter", ["right", "half right", "every third wrong", "wrong"])
@pytest.mark.parametrize("seed", [None, 3])
def test_no_draft_changes_an_answer(layout: str, drafter: str, seed: int | None) -> None:
    shape = replace(ROOMY, layout=LAYOUTS[layout], drafter=drafter, num_checkpoints=8)
    sampling = Sampling(seed=0, temperature=0.0) if seed is None else Sampling(seed, 1.2, frequency_penalty=0.5)
    request = replace(a_request(max_tokens=TIMES), sampling=sampling, top_logprobs=2)

    outcomes, parts, _ = served(shape, request)

    deltas = [advance.delta for outcome in outcomes for advance in outcome.advances if advance.delta]
    expected = answer(request, 0, context_length=shape.context_length, layout=shape.layout)
    tokens = [token for delta in deltas for token in delta.tokens]
    assert tokens == list(expected.tokens[len(expected.tokens) - len(tokens) :])
    assert len(tokens) >= TIMES - 2  # those of the first steps are not looked at
    assert parts.stats.drafts[drafter].tokens > 0


def test_a_stop_within_a_draft_cuts_ids_usage_and_marks_alike() -> None:
    request = a_request(max_tokens=TIMES)
    whole = answer(request, 0, context_length=RIGHT.context_length)
    stop = next(token.id for index, token in enumerate(whole.tokens) if index > 2 and token.id not in
                [other.id for other in whole.tokens[:index]])  # fmt: skip
    stopping = Stopping(max_tokens=TIMES, token_ids=frozenset({stop}))

    outcomes, _, sequence = served(RIGHT, replace(request, stopping=stopping))

    end = outcomes[-1].advances[0].delta
    assert end is not None
    assert end.end is not None
    assert (end.end.reason, end.end.matched) == (FinishReason.STOP, stop)
    place = [token.id for token in whole.tokens].index(stop)
    assert sequence.tokens[sequence.num_prompt :] == [token.id for token in whole.tokens[: place + 1]]
    assert end.end.usage.output_tokens == place + 1
    assert sequence.ledger.computed == sequence.ledger.accepted - 1


def test_usage_counts_what_came_of_the_client_s_own_guess() -> None:
    request = a_request(max_tokens=TIMES)
    known = [token.id for token in answer(request, 0, context_length=ROOMY.context_length).tokens]
    shape = replace(ROOMY, drafter="usual")

    _, parts, sequence = served(shape, replace(request, prediction=(*known[:6], 16, 16, 16, 16, 16, 16)))

    usage, counts = sequence.usage, parts.stats.drafts["prediction"]
    assert usage.accepted_prediction_tokens == counts.kept > 0
    assert usage.rejected_prediction_tokens == counts.tokens - counts.kept > 0


def test_a_request_may_do_without() -> None:
    outcomes, parts, _ = served(RIGHT, replace(a_request(max_tokens=6), max_draft_tokens=0))

    assert all(len(advance.tokens) == 1 for outcome in outcomes for advance in outcome.advances)
    assert not parts.stats.drafts


def test_nothing_is_drafted_beside_a_prompt() -> None:
    parts, _ = decoding(RIGHT)
    parts.offer(a_request((9, 9, 9, 8, 8), id="prompt"))

    plan, _ = step(parts)

    assert [chunk.num_drafts for chunk in plan.chunks] == [0, 0]


def test_drafts_take_no_more_than_the_step_has_room_for() -> None:
    parts, _ = decoding(replace(RIGHT, max_step_positions=5, max_logit_rows=3))

    plan = parts.issue()

    assert plan.chunks[0].num_drafts == 2


def test_a_draft_takes_nobody_s_cache() -> None:
    parts, sequence = decoding(RIGHT)
    assert parts.tables.num_missing(sequence, sequence.ledger.computed + 1) == 1
    parts.tables.pool.reserve(parts.tables.pool.num_available - 1)  # somebody's, who came later

    decision = parts.decide()

    assert not decision.victims
    assert [(grant.sequence.id, grant.count, grant.draft) for grant in decision.grants] == [(sequence.id, 1, None)]


def test_a_state_s_drafts_stay_within_half_of_the_slots_that_are_left() -> None:
    states = replace(RIGHT, layout=LAYOUTS["states"], max_sequences=1, num_checkpoints=5)
    parts, sequence = decoding(states)
    most = parts.tables.num_draft_states

    plan = parts.issue()

    assert most == 2
    assert plan.chunks[0].num_drafts == 2
    assert [position for position, _ in sequence.held.ring] == [plan.chunks[0].owed_stop, plan.chunks[0].owed_stop + 1]


def test_the_state_at_computed_goes_on_and_the_others_are_given_back() -> None:
    parts, sequence = decoding(replace(HALF, layout=LAYOUTS["states"], num_checkpoints=8))

    for _ in range(4):
        before = sequence.held.slot
        plan, _ = step(parts)
        ring = dict(position_and_slot for position_and_slot in plan.chunks[0].ticket.states.checkpoints)  # type: ignore[union-attr]  # it is recurrent
        assert sequence.held.slot == (
            before if sequence.ledger.computed == plan.chunks[0].stop else ring[sequence.ledger.computed]
        )
        assert not sequence.held.ring
        assert parts.tables.states.pool.owners(sequence.held.slot or 0) == 1


def test_drafts_stand_as_far_as_they_agree() -> None:
    assert num_standing((1, 2, 3), (1, 2, 3, 4)) == 3
    assert num_standing((1, 2, 3), (1, 5)) == 1
    assert num_standing((), (4,)) == 0
    assert num_standing((1, 2), (7, 2, 3)) == 0


def test_a_drafted_token_that_ends_the_answer_stood() -> None:
    request = a_request(max_tokens=TIMES)
    known = [token.id for token in answer(request, 0, context_length=ROOMY.context_length).tokens]
    last = next(place for place, token in enumerate(known) if place > 3 and token not in known[:place])
    stopping = Stopping(max_tokens=TIMES, token_ids=frozenset({known[last]}))
    guessing = replace(request, prediction=tuple(known), stopping=stopping)

    _, parts, sequence = served(replace(ROOMY, drafter="usual", max_draft_tokens=15), guessing)

    usage, first = sequence.usage, 2  # the prompt's step and a bare one
    assert usage.output_tokens == last + 1
    assert usage.accepted_prediction_tokens == last + 1 - first
    assert usage.rejected_prediction_tokens == parts.stats.drafts["prediction"].tokens - (last + 1 - first)


def test_a_prediction_counts_up_to_what_the_model_can_not_say() -> None:
    parts = Parts(replace(ROOMY, drafter="usual"))

    sequence = parts.offer(replace(a_request(), prediction=(2, 3, VOCABULARY_SIZE, 4)))

    assert sequence.request.prediction == (2, 3)
