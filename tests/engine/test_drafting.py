"""A draft model beside the digest model, through plan and commit: what it computes, and what comes of its guesses."""

from dataclasses import replace

import pytest

from engine.draft.drafts import DRAFT_MODEL
from engine.pace import Load, Streams, load_of
from engine.request import FinishReason, Sampling
from engine.sequence import Sequence, State
from engine.step import Outcome, Plan
from tests.answer import answer
from tests.digest import LAYOUTS
from tests.draft_model import BENDS, CONTEXT, rows_of, with_draft_model
from tests.laws.shape import Shape
from tests.parts import Parts, a_request
from tests.toy_grammar import WIDE

ROOMY = Shape(
    layout=with_draft_model(LAYOUTS["full"]),
    num_blocks=30,
    max_context=60,
    max_step_positions=20,
    max_logit_rows=20,
    max_draft_tokens=3,
    draft_model="right",
)
HALF, WRONG = (replace(ROOMY, draft_model=bend) for bend in ("half right", "wrong"))
TIMES = 10  # outputs, within the draft model's context
PROMPT = (2, 3, 4, 5, 2)


def step(parts: Parts) -> tuple[Plan, Outcome]:
    """One step, after which the pace knows that time stands still."""
    parts.admit()
    plan = parts.issue()
    outcome = parts.apply(plan)
    parts.pace.observe(load_of(plan.chunks), 0.0)
    return plan, outcome


def decoding(shape: Shape, prompt: tuple[int, ...] = PROMPT, *, id: str = "request") -> tuple[Parts, Sequence]:
    """A sequence whose next step may hold drafts."""
    parts = Parts(shape)
    sequence = parts.run(a_request(prompt, id=id, max_tokens=TIMES))
    while parts.pace.price_of_drafts(Streams(1, 1)) is None or sequence.num_owed > 1:
        step(parts)
    return parts, sequence


def check_rows(parts: Parts, sequence: Sequence) -> None:
    """What is drafted holds the rows of the accepted tokens."""
    upto = sequence.ledger.drafted
    assert parts.draft_model is not None
    assert parts.draft_model.read(parts.tables.tables_of(sequence), upto) == rows_of(sequence.tokens[:upto])


def test_the_draft_model_computes_what_it_lacks_and_guesses_in_the_same_step() -> None:
    parts, sequence = decoding(ROOMY)
    before = sequence.ledger.marks

    plan = parts.issue()

    (chunk,) = plan.chunks
    assert chunk.feed is not None
    assert (chunk.feed.start, chunk.feed.tokens) == (0, tuple(sequence.tokens))
    assert (chunk.num_drafts, chunk.num_guesses, chunk.source, chunk.drafts) == (3, 3, DRAFT_MODEL, ())
    assert chunk.stop == sequence.ledger.planned == before.computed + 1 + 3
    assert plan.num_positions == 4
    (advance,) = parts.apply(plan).advances
    assert advance.drafts == advance.tokens[:3]
    assert sequence.ledger.computed == before.computed + 4


def test_it_has_all_but_its_last_guess_where_all_stand() -> None:
    parts, sequence = decoding(replace(ROOMY, block_size=4))

    step(parts)
    (chunk,) = parts.issue().chunks

    assert int(sequence.ledger.drafted) == sequence.ledger.computed - 1
    assert chunk.feed is not None
    assert (chunk.feed.start, len(chunk.feed.tokens)) == (sequence.ledger.drafted, 2)
    check_rows(parts, sequence)


def test_its_mark_falls_back_with_the_target_s_where_a_guess_falls() -> None:
    parts, sequence = decoding(WRONG)

    step(parts)

    assert int(sequence.ledger.drafted) == sequence.ledger.computed
    check_rows(parts, sequence)
    assert parts.stats.drafts[DRAFT_MODEL].kept == 0
    assert parts.stats.positions.rejected == 3


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("bend", BENDS)
@pytest.mark.parametrize("seed", [None, 3])
def test_no_draft_model_changes_an_answer(layout: str, bend: str, seed: int | None) -> None:
    shape = replace(ROOMY, layout=with_draft_model(LAYOUTS[layout]), draft_model=bend, num_checkpoints=8)
    sampling = Sampling(seed=0, temperature=0.0) if seed is None else Sampling(seed, 1.2, frequency_penalty=0.5)
    request = replace(a_request(max_tokens=TIMES), sampling=sampling, top_logprobs=2)
    parts, outcomes = Parts(shape), list[Outcome]()
    sequence = parts.run(request)

    while sequence.state is not State.FINISHED:
        outcomes.append(step(parts)[1])
        if sequence.held.anything:
            check_rows(parts, sequence)

    tokens = [token for outcome in outcomes for each in outcome.advances if each.delta for token in each.delta.tokens]
    assert tokens == list(answer(request, 0, context_length=shape.context_length, layout=shape.layout).tokens)
    counts = parts.stats.drafts[DRAFT_MODEL]
    assert counts.tokens > 0
    assert bend not in ("right", "wrong") or (counts.kept > 0) == (bend == "right")


def test_a_likelier_guess_from_elsewhere_is_the_draft_and_the_draft_model_does_nothing() -> None:
    parts, _ = decoding(replace(ROOMY, drafter="right"))

    (chunk,) = parts.issue().chunks

    assert (chunk.source, chunk.feed, chunk.num_guesses) == ("right", None, 0)


def test_a_draft_model_that_fails_gives_way() -> None:
    parts, _ = decoding(replace(WRONG, drafter="half right"))
    parts.drafts._overall.add(100, 0)

    (chunk,) = parts.issue().chunks

    assert (chunk.source, chunk.feed) == ("half right", None)


def test_behind_its_own_context_it_guesses_no_more_and_the_request_goes_on() -> None:
    parts, sequence = decoding(replace(ROOMY, max_draft_tokens=8), tuple([2] * (CONTEXT - 4)))

    counts = []
    while sequence.state is not State.FINISHED:
        plan, _ = step(parts)
        counts.append(plan.chunks[0].num_guesses)

    assert sequence.num_outputs == TIMES
    assert counts[0] > 0
    assert not any(counts[1:])


def test_a_long_prompt_is_computed_block_by_block_while_others_sources_draft() -> None:
    shape = replace(ROOMY, max_step_positions=5, drafter="half right")
    parts, sequence = decoding(shape, tuple([2, 3, 4] * 4))
    parts.drafts._overall.add(9, 9)  # likelier than the other
    feeds, sources = [], []

    while DRAFT_MODEL not in sources:
        plan, _ = step(parts)
        feed = plan.chunks[0].feed
        feeds.append(None if feed is None else (feed.start, feed.stop))
        sources.append(plan.chunks[0].source)
        check_rows(parts, sequence)

    assert feeds[:3] == [(0, 4), (4, 8), (8, 12)]
    assert sources[:3] == ["half right"] * 3


def test_a_prompt_that_others_have_drafted_is_not_drafted_again() -> None:
    prompt = (2, 3, 4, 5, 2, 3)
    parts, first = decoding(ROOMY, prompt)
    step(parts)
    while first.state is not State.FINISHED:
        step(parts)

    second = parts.run(a_request(prompt, id="again", max_tokens=TIMES))

    assert (second.ledger.computed, second.ledger.drafted) == (4, 4)
    check_rows(parts, second)


def test_a_prompt_found_in_the_cache_that_was_never_drafted_is_drafted_once_for_all_who_share_it() -> None:
    prompt = (2, 3, 4, 5, 2, 3, 4)
    parts = Parts(ROOMY)
    silent = parts.run(replace(a_request(prompt, id="silent", max_tokens=2), max_draft_tokens=0))
    while silent.state is not State.FINISHED:
        step(parts)
    first, second = (parts.offer(a_request(prompt, id=name, max_tokens=TIMES)) for name in ("first", "second"))
    parts.admit()
    assert (first.ledger.computed, first.ledger.drafted) == (6, 0)
    assert first.held.tables[0].blocks[:3] == second.held.tables[0].blocks[:3]

    fed = []
    for _ in range(4):
        plan, _ = step(parts)
        fed.append({chunk.ticket.sequence: (chunk.feed.start, chunk.feed.stop) for chunk in plan.chunks if chunk.feed})
        for sequence in parts.roster:
            check_rows(parts, sequence)
    feeds = [each for each in fed if each]

    assert list(feeds[0]) == ["first/0"]
    assert feeds[0]["first/0"][0] == 0
    assert feeds[1]["second/0"][0] == 6


def test_a_block_that_the_draft_model_has_is_passed_over_behind_one_that_it_lacks() -> None:
    prompt = (2, 3, 4, 5, 2, 3, 4)
    parts, sequence = decoding(ROOMY, prompt)
    size, block = parts.tables.block_size, sequence.held.tables[0].blocks[1]
    assert parts.draft_model is not None
    parts.draft_model.memory[block * size : (block + 1) * size] = rows_of(prompt)[size : 2 * size]
    parts.tables._drafted.add(block)

    first, second = (step(parts)[0].chunks[0].feed for _ in range(2))

    assert first is not None
    assert (first.start, first.stop) == (0, size)
    assert second is not None
    assert second.start == 2 * size
    check_rows(parts, sequence)


def test_what_a_preempted_sequence_had_drafted_counts_as_far_as_it_finds_its_blocks() -> None:
    parts, sequence = decoding(HALF)
    step(parts)
    step(parts)

    parts.preempt(sequence)
    lost = sequence.ledger.drafted
    parts.admit()

    assert lost == 0
    assert 0 < sequence.ledger.drafted <= sequence.ledger.computed
    check_rows(parts, sequence)


def test_places_that_are_handed_out_again_are_not_drafted() -> None:
    parts, sequence = decoding(ROOMY)
    step(parts)
    blocks = set(sequence.held.tables[0].blocks)
    assert parts.tables._drafted & blocks
    parts.commit.end(sequence, FinishReason.ABORT)
    units = parts.tables.pool.num_available

    other = parts.run(a_request(tuple([9] * 18), id="other"))
    parts.tables.reserve([(other, 2 * units, 0)])

    assert not parts.tables._drafted


def test_full_blocks_count_whole_or_not_at_all() -> None:
    parts, sequence = decoding(ROOMY)
    size, computed = parts.tables.block_size, sequence.ledger.computed

    assert int(parts.tables.settled(sequence, computed + 3)) == computed
    assert parts.tables.settled(sequence, size + 1) == size
    assert parts.tables.settled(sequence, 0) == 0


def test_nothing_is_fed_beside_a_prompt_nor_where_a_step_has_to_show_what_streams_take() -> None:
    parts, _ = decoding(ROOMY)
    parts.offer(a_request((9, 9, 9, 8, 8), id="prompt"))

    beside, _ = step(parts)
    parts.pace._until_bare = 0
    bare, _ = step(parts)

    assert not beside.is_fed
    assert not bare.is_fed


def test_who_broke_a_step_runs_without_the_draft_model() -> None:
    parts, sequence = decoding(ROOMY)
    sequence.failures = 1
    sequence.failed_upto = 100

    assert not parts.issue().is_fed


def test_a_dear_draft_model_is_left_alone() -> None:
    parts, _ = decoding(ROOMY)
    parts.pace.observe(Load(Streams(1, 5)), 1.0)
    parts.pace._guess = 1.0

    assert not parts.issue().is_fed


def test_catching_up_takes_no_more_of_a_step_than_the_streams() -> None:
    parts, _ = decoding(replace(ROOMY, max_step_positions=18), tuple([2, 3] * 8))
    parts.pace.observe(Load(Streams(1, 17)), 1.0)
    parts.pace._guess = 1.0 / 20  # a dozen positions and a round are as dear as the step
    parts.pace._draft = 0.0
    parts.drafts._overall.add(1000, 1000)

    (chunk,) = parts.issue().chunks

    assert chunk.feed is not None
    assert (chunk.feed.start, chunk.feed.stop) == (0, 12)


def test_a_sequence_with_a_grammar_is_not_guessed_for() -> None:
    parts = Parts(ROOMY)
    parts.run(replace(a_request(max_tokens=TIMES), grammar=WIDE))

    steps = []
    while parts.roster.running:
        steps.append(step(parts)[0])

    assert len(steps) > 2
    assert not any(plan.is_fed for plan in steps)
