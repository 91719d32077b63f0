import pickle

from engine.course import Event
from engine.drafting import Grant
from engine.pace import LOOK_EVERY, Load, Pace, Streams
from engine.plan import OLDEST_PART, Decision
from engine.request import Request, Sampling, Stopping
from engine.sequence import Sequence, State
from engine.step import Choose, Plan, Score, Table
from tests.laws.shape import Shape
from tests.parts import GREEDY, Parts, a_request, blocks_of


def positions(plan: Plan) -> dict[str, int]:
    return {chunk.ticket.sequence.partition("/")[0]: len(chunk.tokens) for chunk in plan.chunks}


def grants(decision: Decision) -> list[tuple[str, int]]:
    return [(grant.sequence.request.id, grant.count) for grant in decision.grants]


def decoding(parts: Parts, prompt: tuple[int, ...], name: str) -> Sequence:
    """A running sequence whose prompt is computed."""
    sequence = parts.run(a_request(prompt, id=name, max_tokens=9))
    parts.step_until(lambda: sequence.num_owed == 1)
    return sequence


def teach(pace: Pace, *, rest: float, position: float, score: float = 0.001) -> None:
    """Let the pace see what one stream, a prompt's position and a row of logits take, in seconds."""
    stream = Streams(1, 3)
    for load, seconds in (
        (Load(Streams(), work=30.0), 30 * position),
        (Load(stream), rest),
        (Load(stream, work=10.0), rest + 10 * position),
        (Load(stream, work=10.0, num_scores=10), rest + 10 * position + 10 * score),
    ):
        for _ in range(60):
            pace.observe(load, seconds)
    pace.observe(Load(stream), rest)  # so that the next step is not for looking


# -- the budget -------------------------------------------------------------------------------


def test_a_prompt_is_computed_in_chunks_under_the_budget() -> None:
    parts = Parts(Shape(max_step_positions=4, max_sequences=3))
    parts.run(a_request((2, 3, 4, 5, 2, 3)))

    plans = [parts.issue()]
    parts.apply(plans[0])
    plans.append(parts.issue())

    assert [plan.chunks[0].tokens for plan in plans] == [(2, 3, 4, 5), (2, 3)]
    assert [plan.chunks[0].choose is not None for plan in plans] == [False, True]


def test_decodes_come_first_and_equal_prompts_go_in_order() -> None:
    parts = Parts(Shape(max_step_positions=4, max_sequences=3, num_blocks=12))
    decoding(parts, (2, 3), "decoding")
    parts.run(a_request((4, 4, 4, 4, 4), id="first"))
    parts.run(a_request((5, 5, 5, 5, 5), id="second"))

    assert positions(parts.issue()) == {"decoding": 1, "first": 3}


def test_a_short_prompt_overtakes_a_long_one_but_for_the_oldest_ones_part() -> None:
    parts = Parts(Shape(max_step_positions=8, num_blocks=60, max_context=60))
    parts.run(a_request((2,) * 40, id="long"))
    parts.run(a_request((3,) * 20, id="longish"))
    parts.run(a_request((4,) * 4, id="short"))

    assert positions(parts.issue()) == {"long": 8 // OLDEST_PART, "longish": 8 - 8 // OLDEST_PART - 4, "short": 4}


def test_a_lower_priority_number_goes_before_a_shorter_prompt() -> None:
    parts = Parts(Shape(max_step_positions=8, num_blocks=60, max_context=60))
    parts.run(a_request((2,) * 4, id="short"))
    parts.run(a_request((3,) * 20, id="urgent", priority=-1))

    assert positions(parts.issue()) == {"urgent": 8}


def test_a_long_prompt_is_computed_however_many_short_ones_arrive() -> None:
    parts = Parts(Shape(max_step_positions=8, num_blocks=200, max_context=60, prefix_caching=False))
    long = parts.run(a_request((2,) * 40, id="long"))

    for number in range(40 // (8 // OLDEST_PART)):
        parts.run(a_request((3,) * 6, id=f"short {number}", max_tokens=1))
        parts.step()

    assert long.num_outputs


def test_what_a_prompt_gets_beside_streams_is_what_fits_into_the_time() -> None:
    parts = Parts(Shape(max_step_positions=60, num_blocks=40, max_context=80, max_step_seconds=0.030))
    decoding(parts, (2, 3), "decoding")
    parts.run(a_request((2,) * 60, id="long"))
    teach(parts.pace, rest=0.010, position=0.001)

    assert 18 <= positions(parts.issue())["long"] <= 20


def test_scores_are_counted_by_their_time() -> None:
    parts = Parts(Shape(max_step_positions=60, max_logit_rows=60, num_blocks=40, max_context=80, max_step_seconds=0.03))
    decoding(parts, (2, 3), "decoding")
    parts.run(a_request((2,) * 60, id="scored", prompt_logprobs=0))
    teach(parts.pace, rest=0.010, position=0.001, score=0.0035)

    assert positions(parts.issue()) == {"decoding": 1, "scored": 4}


def test_without_any_time_the_oldest_prompt_still_moves_on() -> None:
    parts = Parts(Shape(max_step_positions=60, num_blocks=40, max_context=80))
    decoding(parts, (2, 3), "decoding")
    parts.run(a_request((2,) * 30, id="long"))
    parts.run(a_request((3,) * 3, id="short"))
    teach(parts.pace, rest=0.010, position=0.001)
    for _ in range(LOOK_EVERY - 1):
        parts.pace.observe(Load(Streams(1, 3), work=10.0), 0.020)

    assert positions(parts.issue()) == {"decoding": 1, "long": 1}


def test_rows_for_logits_are_part_of_the_budget() -> None:
    parts = Parts(Shape(max_logit_rows=3, max_sequences=3))
    parts.run(a_request((2, 3, 4, 5, 2, 3), id="scored", prompt_logprobs=0))
    plan = parts.issue()

    assert positions(plan) == {"scored": 3}
    assert [chunk.num_logit_rows for chunk in plan.chunks] == [3]


def test_one_row_for_logits_is_enough_to_score_and_to_choose() -> None:
    parts = Parts(Shape(max_logit_rows=1, max_sequences=1))
    sequence = parts.run(a_request((2, 3, 4), prompt_logprobs=0))

    num_rows = []
    while not sequence.num_outputs:
        plan = parts.issue()
        num_rows.append(sum(chunk.num_logit_rows for chunk in plan.chunks))
        parts.apply(plan)

    assert num_rows == [1, 1, 1]
    assert len(sequence.prompt_logprobs) == 3


def test_without_a_row_for_logits_a_prompt_waits_for_the_next_step() -> None:
    parts = Parts(Shape(max_logit_rows=3, max_sequences=3))
    parts.run(a_request((2, 3, 4, 5, 2), id="scored", prompt_logprobs=0))
    parts.run(a_request((6, 6, 6, 6, 6), id="behind"))

    assert positions(parts.issue()) == {"scored": 3}


def test_a_decision_changes_nothing() -> None:
    parts = Parts()
    sequence = parts.run(a_request())

    assert parts.decide() == parts.decide()
    assert (blocks_of(sequence), sequence.ledger.planned) == ([], 0)


# -- blocks and preemption --------------------------------------------------------------------


def test_the_last_sequence_gives_its_cache_to_those_before_it() -> None:
    parts = Parts(Shape(num_blocks=4, block_size=2))
    first = decoding(parts, (2, 3), "first")
    last = decoding(parts, (4, 5), "last")
    for _ in range(3):
        plan = parts.issue()
        parts.apply(plan)

    assert last.state is State.WAITING
    assert not last.held.anything
    assert positions(plan) == {"first": 1}
    assert first.epoch == 0
    assert parts.stats.preemptions == 1


def test_the_oldest_running_sequence_is_never_preempted() -> None:
    parts = Parts(Shape(num_blocks=4, block_size=2))
    first, second = decoding(parts, (2, 3, 4), "first"), decoding(parts, (4, 5), "second")

    parts.step_until(lambda: second.state is not State.RUNNING)

    assert first.epoch == 0
    assert second.epoch == 1


def test_a_paused_sequences_cache_goes_before_a_running_ones() -> None:
    parts = Parts(Shape(num_blocks=3, block_size=2))
    paused, first, last = (
        parts.offer(a_request(prompt, id=name))
        for prompt, name in (((2, 3), "paused"), ((4, 5), "first"), ((6, 7), "last"))
    )
    parts.step()
    paused.stalled = True
    parts.admission.settle_pauses()

    assert parts.decide() == Decision((Grant(first, 1),), victims=(paused,))
    parts.apply(parts.issue())
    assert (paused.state, paused.held.anything, last.state) == (State.PAUSED, False, State.RUNNING)


def test_a_lower_priority_number_takes_the_cache_of_an_earlier_arrival() -> None:
    parts = Parts(Shape(num_blocks=2, block_size=2))
    early = parts.offer(a_request((2, 3), id="early"))
    urgent = parts.offer(a_request((4, 5), id="urgent", priority=-1))
    parts.step()

    assert parts.decide() == Decision((Grant(urgent, 1),), victims=(early,))


def test_a_chunk_is_cut_to_the_blocks_that_there_are() -> None:
    parts = Parts(Shape(num_blocks=4, block_size=2, max_step_positions=8))
    decoding(parts, (2, 3, 4), "first")
    behind = parts.run(a_request((5, 5), id="behind"))
    parts.tables.preempt(behind)
    behind.tokens.extend([5] * 3)
    behind.ledger._accepted += 3

    assert grants(parts.decide()) == [("first", 1), ("behind", 4)]


def test_what_a_victim_shares_is_not_counted_as_freed() -> None:
    parts = Parts(Shape(num_blocks=4, block_size=2))
    first = decoding(parts, (2, 3, 4), "first")
    twin = decoding(parts, (2, 3, 5), "twin")
    assert blocks_of(twin)[0] == blocks_of(first)[0]

    parts.step_until(lambda: twin.state is not State.RUNNING)
    parts.apply(parts.issue())

    assert first.num_outputs >= 4


def test_a_reservation_moves_planned_and_gives_each_chunk_its_ticket() -> None:
    parts = Parts()
    sequence = parts.run(a_request((2, 3, 4)))
    parts.incarnation = 7

    plan = parts.issue()

    ticket = plan.chunks[0].ticket
    assert (ticket.epoch, ticket.incarnation, ticket.base, ticket.tables) == (0, 7, 0, (Table((0, 1)),))
    assert sequence.ledger.planned == plan.chunks[0].stop == 3


# -- what is asked of the device --------------------------------------------------------------


def test_a_plan_can_be_pickled() -> None:
    parts = Parts()
    parts.run(a_request(prompt_logprobs=1))
    plan = parts.issue()

    assert pickle.loads(pickle.dumps(plan)) == plan


def test_a_choice_carries_the_counter_that_its_randomness_comes_from() -> None:
    parts = Parts()
    first, second = parts.admission.offer(a_request(num_choices=2), now=0.0)
    parts.step()
    parts.step()

    chooses = [chunk.choose for chunk in parts.issue().chunks]

    assert chooses == [
        Choose(GREEDY, first.choice, first.num_outputs),
        Choose(GREEDY, second.choice, second.num_outputs),
    ]
    assert [choose.output_index for choose in chooses if choose] == [2, 1]


def test_tokens_are_told_only_where_they_are_penalized() -> None:
    parts = Parts()
    for name, sampling in (
        ("presence", Sampling(seed=0, presence_penalty=1.0)),
        ("repetition", Sampling(seed=0, repetition_penalty=1.5)),
    ):
        parts.run(Request(name, (2, 3), sampling, Stopping(max_tokens=4)))
    parts.step()

    told = {chunk.ticket.sequence: chunk.choose for chunk in parts.issue().chunks}

    for name, prompt in (("presence/0", ()), ("repetition/0", (2, 3))):
        choose, sequence = told[name], parts.roster.get(name)
        assert choose is not None
        assert sequence is not None
        assert choose.prompt == prompt
        assert choose.outputs == tuple(sequence.tokens[2:])


def test_stop_tokens_are_banned_until_there_are_enough_outputs() -> None:
    parts = Parts()
    stopping = Stopping(max_tokens=5, min_tokens=2, token_ids=frozenset({9}), eos_ids=frozenset({0}))
    parts.run(a_request((2, 3), stopping=stopping))

    banned = []
    for _ in range(3):
        plan = parts.issue()
        banned.append(plan.chunks[0].choose.banned if plan.chunks[0].choose else None)
        parts.apply(plan)

    assert banned == [(0, 9), (0, 9), ()]


def test_each_prompt_token_but_the_first_is_scored_once_over_all_chunks() -> None:
    parts = Parts(Shape(max_step_positions=3, max_sequences=3))
    sequence = parts.run(a_request((2, 3, 4, 5, 2), prompt_logprobs=1, max_tokens=0))

    scores = []
    while sequence.state is State.RUNNING:
        plan = parts.issue()
        scores.append(plan.chunks[0].score)
        assert plan.chunks[0].choose is None
        parts.apply(plan)

    assert scores == [Score(0, (3, 4, 5), 1), Score(3, (2,), 1)]


def test_a_preempted_request_scores_only_what_is_still_wanted() -> None:
    parts = Parts(Shape(max_step_positions=4, max_sequences=3))
    sequence = parts.run(a_request((2, 3, 4, 5, 2, 3), prompt_logprobs=0))
    parts.apply(parts.issue())
    parts.preempt(sequence)
    parts.admit()

    plan = parts.issue()

    assert plan.chunks[0].start == sequence.ledger.computed == 4
    assert plan.chunks[0].score == Score(4, (3,), 0)


# -- suspects ---------------------------------------------------------------------------------


def test_a_sequence_whose_step_failed_runs_alone() -> None:
    parts = Parts()
    parts.run(a_request((2, 3), id="first"))
    suspect = parts.run(a_request((4, 5), id="suspect"))
    suspect.failures = 1

    assert positions(parts.issue()) == {"suspect": 2}


def test_a_suspect_without_a_block_does_not_hold_up_the_others() -> None:
    parts = Parts(Shape(num_blocks=2, block_size=4))
    decoding(parts, (2, 3, 4, 5, 2), "first")
    suspect = parts.offer(a_request((6,), id="suspect"))
    parts.roster.move(suspect, State.RUNNING, Event.ADMITTED)
    suspect.failures = 1

    assert grants(parts.decide()) == [("first", 1)]
