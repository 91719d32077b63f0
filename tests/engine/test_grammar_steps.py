"""Outputs that follow a grammar through plan and commit, over the digest model (law 17)."""

import threading
from dataclasses import replace

import pytest

from engine.errors import GrammarFailed
from engine.pace import Streams, load_of
from engine.request import FinishReason, Grammar, Request, Sampling, Stopping
from engine.sequence import Sequence, State
from engine.step import ChunkResult, Outcome, Plan
from tests.answer import answer
from tests.digest import EOS, tokens_in
from tests.laws.shape import Shape
from tests.parts import Parts, a_request
from tests.toy_grammar import DEAD_END, NARROW, WIDE, ToyMatcher, allowed_behind

ROOMY = Shape(num_blocks=30, max_context=60, max_step_positions=20, max_logit_rows=20, max_draft_tokens=3)
SEEDS = (0, 1, 2, 3)
ENDING = Stopping(max_tokens=30, eos_ids=frozenset({EOS}))


def asking(grammar: Grammar, seed: int = 0, stopping: Stopping = ENDING) -> Request:
    request = a_request((2, 3, 4, 5 + seed), grammar=grammar, stopping=stopping)
    return replace(request, sampling=Sampling(seed=seed, temperature=1.0))


def step(parts: Parts) -> tuple[Plan, Outcome]:
    parts.admit()
    plan = parts.issue()
    outcome = parts.apply(plan)
    parts.pace.observe(load_of(plan.chunks), 0.0)
    return plan, outcome


def ready_for_drafts(parts: Parts) -> Parts:
    """Let the pace see steps without drafts, so that the next ones may hold some."""
    parts.run(a_request((9, 8), id="before", max_tokens=3))
    while parts.roster or parts.pace.price_of_drafts(Streams(1)) is None:
        step(parts)
    return parts


def served(parts: Parts, request: Request) -> tuple[list[Plan], list[Outcome], Sequence]:
    sequence = parts.run(request)
    steps = []
    while sequence.state is not State.FINISHED:
        steps.append(step(parts))
    return [plan for plan, _ in steps], [outcome for _, outcome in steps], sequence


def outputs_of(sequence: Sequence) -> list[int]:
    return sequence.tokens[sequence.num_prompt :]


def state_of(parts: Parts, sequence: Sequence) -> list[int]:
    """The outputs that the grammar has taken."""
    matcher = parts.grammars._records[sequence.id].matcher
    assert isinstance(matcher, ToyMatcher)
    return matcher.tokens


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("grammar", [WIDE, NARROW, DEAD_END])
@pytest.mark.parametrize("drafter", ["right", "half right", "wrong", "usual"])
def test_no_draft_changes_an_answer_that_follows_a_grammar(grammar: Grammar, drafter: str, seed: int) -> None:
    parts = ready_for_drafts(Parts(replace(ROOMY, drafter=drafter)))
    request = asking(grammar, seed)

    _, outcomes, sequence = served(parts, request)

    expected = answer(request, 0, context_length=60)
    assert outputs_of(sequence) == [token.id for token in expected.tokens]
    (end,) = [
        delta.end for outcome in outcomes for advance in outcome.advances if (delta := advance.delta) and delta.end
    ]
    assert end.reason is expected.reason
    for count, token in enumerate(outputs_of(sequence)):
        assert token in allowed_behind(grammar, outputs_of(sequence)[:count])


def test_a_draft_is_cut_where_the_grammar_refuses_it() -> None:
    parts = ready_for_drafts(Parts(replace(ROOMY, drafter="wrong")))

    plans, _, sequence = served(parts, asking(WIDE))

    for plan in plans:
        (chunk,) = plan.chunks
        before = sequence.tokens[sequence.num_prompt : chunk.owed_stop]
        for count, draft in enumerate(chunk.drafts):
            assert draft in allowed_behind(WIDE, [*before, *chunk.drafts[:count]])


@pytest.mark.parametrize("seed", SEEDS)
def test_what_a_grammar_leaves_no_choice_about_is_drafted_and_stands(seed: int) -> None:
    parts = ready_for_drafts(Parts(replace(ROOMY, drafter="wrong")))

    served(parts, asking(NARROW, seed, replace(ENDING, eos_ids=frozenset())))

    drafts = parts.stats.drafts["grammar"]
    assert drafts.kept == drafts.tokens > 0


def test_the_state_is_that_of_the_accepted_outputs_behind_a_rejection() -> None:
    parts = ready_for_drafts(Parts(replace(ROOMY, drafter="wrong")))

    for seed in range(8):
        sequence = parts.run(asking(WIDE, seed, Stopping(max_tokens=20)))
        while sequence.state is not State.FINISHED:
            assert state_of(parts, sequence) == outputs_of(sequence)
            step(parts)

    assert parts.stats.rollbacks["rejected"] > 0
    assert not parts.grammars._records, "nothing is kept of a sequence that has ended"


def test_the_state_outlives_a_preemption_and_a_dropped_result() -> None:
    parts = Parts(ROOMY)
    sequence = parts.run(asking(WIDE, stopping=Stopping(max_tokens=20)))
    parts.step_until(lambda: sequence.num_outputs == 3)

    plan = parts.issue()
    result = parts.runner.compute(plan, parts.grammars.masks(plan))
    stale = tuple(replace(chunk, ticket=replace(chunk.ticket, epoch=7)) for chunk in result.chunks)
    parts.apply(plan, replace(result, chunks=stale))

    assert sequence.state is State.WAITING
    assert state_of(parts, sequence) == outputs_of(sequence)
    parts.step()
    assert state_of(parts, sequence) == outputs_of(sequence)


def test_an_output_that_its_grammar_completes_stops_even_where_it_has_no_more_room() -> None:
    request = next(
        request
        for seed in range(50)
        if (whole := answer(request := asking(NARROW, seed), 0, context_length=60)).reason is FinishReason.STOP
        and whole.tokens[-1].id != EOS
    )
    length = len(answer(request, 0, context_length=60).tokens)
    tight = replace(request, stopping=Stopping(max_tokens=length))

    _, outcomes, sequence = served(Parts(ROOMY), tight)

    end = outcomes[-1].advances[0].delta
    assert end is not None
    assert end.end is not None
    assert (end.end.reason, end.end.matched) == (FinishReason.STOP, None)
    assert sequence.num_outputs == length


def test_a_grammar_that_leads_nowhere_ends_the_request_with_an_error_and_what_there_was() -> None:
    parts = Parts(ROOMY)
    other = parts.run(a_request((7, 7), id="other", max_tokens=8))

    _, outcomes, sequence = served(parts, asking(replace(DEAD_END, name="guided"), 2, Stopping(max_tokens=20)))

    ends = [advance.delta for advance in outcomes[-1].advances if advance.sequence == sequence.id]
    assert ends[0] is not None
    assert ends[0].end is not None
    assert isinstance(ends[0].end.error, GrammarFailed)
    assert (ends[0].end.error.name, ends[0].end.error.reason) == ("guided", "no token of the vocabulary fits")
    assert sequence.request.id not in str(ends[0].end.error)
    assert ends[0].end.usage.output_tokens == sequence.num_outputs == 4
    parts.step_until(lambda: other.state is State.FINISHED)


def test_a_token_that_the_grammar_refuses_is_never_accepted() -> None:
    parts = Parts(ROOMY)
    sequence = parts.run(asking(WIDE))
    plan = parts.issue()
    masks = parts.grammars.masks(plan)
    assert masks is not None
    refused = next(token for token in range(18) if token not in tokens_in(masks().by_chunk[0][0]))
    result = parts.runner.compute(plan, masks)
    (chunk,) = result.chunks
    chosen = (chunk.chosen[0]._replace(token=refused),)

    outcome = parts.apply(plan, replace(result, chunks=(ChunkResult(chunk.ticket, chosen),)))

    delta = outcome.advances[0].delta
    assert delta is not None
    assert delta.end is not None
    assert delta.end.reason is FinishReason.ERROR
    assert (outputs_of(sequence), delta.tokens) == ([], ())


class SlowMatcher(ToyMatcher):
    """Makes its mask when it is let, and is not to be touched meanwhile."""

    def __init__(self, grammar: Grammar) -> None:
        super().__init__(grammar)
        self.begun, self.let = threading.Event(), threading.Event()
        self.busy = False

    def mask(self) -> bytes:
        self.busy = True
        self.begun.set()
        self.let.wait()
        self.busy = False
        return super().mask()

    def forced(self) -> tuple[int, ...]:
        assert not self.busy
        return super().forced()


def test_what_a_failed_step_still_makes_masks_from_is_not_touched() -> None:
    parts = Parts(ROOMY)
    sequence = parts.run(asking(NARROW))
    slow = SlowMatcher(NARROW)
    parts.grammars._records[sequence.id].matcher = slow

    parts.grammars.masks(parts.issue())  # nobody waits for them
    slow.begun.wait()
    threading.Timer(0.05, slow.let.set).start()

    assert parts.grammars.forced(sequence) == ToyMatcher(NARROW).forced()


def test_a_chunk_that_chooses_nothing_and_a_step_without_grammars_have_no_masks() -> None:
    parts = Parts(replace(ROOMY, max_step_positions=3))
    parts.run(a_request())
    assert parts.grammars.masks(parts.issue()) is None

    parts = Parts(replace(ROOMY, max_step_positions=3, max_logit_rows=3))
    parts.run(asking(WIDE))
    plan = parts.issue()
    assert plan.chunks[0].choose is None
    assert parts.grammars.masks(plan) is None
