import random
from collections.abc import Callable
from dataclasses import replace

import pytest

from engine.pace import (
    ALONE_SECONDS,
    FIXED_UNITS,
    LOOK_DRAFTS_EVERY,
    LOOK_EVERY,
    MAX_FED,
    MAX_STRETCH,
    MIN_POSITIONS,
    STRETCH,
    UNFELT_SECONDS,
    DraftPrice,
    Load,
    Pace,
    Prices,
    RoundPrice,
    Streams,
    load_of,
    prompt_work,
)
from engine.stats import PaceView
from engine.step import Choose, Chunk, Feed, Score, Ticket
from tests.parts import GREEDY

EIGHT = Streams(8, 800)
LONG = 2_048
Cost = Callable[[Load], float]


def machine(*, step: float = 5.0, stream: float = 1.0, position: float = 0.5, score: float = 0.2) -> Cost:
    """A machine's seconds for a load, from milliseconds."""

    def seconds(load: Load) -> float:
        return (step + stream * load.streams.count + position * load.work + score * load.num_scores) / 1e3

    return seconds


def most(pace: Pace, streams: Streams, start: int, *, scored: bool = False) -> int:
    """The most positions of one prompt that the next step takes, as the planner does it."""
    room, prices = pace.seconds_for_prompts(1, streams), pace.prices(streams)
    count = 0
    while count < LONG and prices.of(start, count + 1, count + 1 if scored else 0) <= room:
        count += 1
    return max(count, 1)


def stream_alone(pace: Pace, cost: Cost, streams: Streams = EIGHT, steps: int = 30) -> None:
    for _ in range(steps):
        pace.observe(Load(streams), cost(Load(streams)))


def warmed(cost: Cost, streams: Streams = EIGHT) -> Pace:
    """A pace that has seen a prompt alone, then streams alone."""
    pace = Pace()
    prompt = Load(Streams(), prompt_work(0, 64), 1)
    pace.observe(prompt, cost(prompt))
    stream_alone(pace, cost, streams)
    return pace


def compute(
    pace: Pace, cost: Cost, *, streams: Streams = EIGHT, length: int = LONG, scored: bool = False
) -> list[float]:
    """Compute a prompt beside the streams; what the steps took."""
    start, times = 0, list[float]()
    while start < length:
        count = min(most(pace, streams, start, scored=scored), length - start)
        load = Load(streams, prompt_work(start, count), count if scored else 0)
        times.append(cost(load))
        pace.observe(load, times[-1])
        start += count
    return times


# -- before anything is known -------------------------------------------------------------------


def test_before_the_first_step_everything_fits() -> None:
    pace = Pace()

    assert most(pace, Streams(), 0) == LONG
    assert most(pace, EIGHT, 0) == LONG
    assert pace.view(1, EIGHT) == PaceView()


def test_a_clock_that_stands_still_teaches_nothing() -> None:
    pace = Pace()

    pace.observe(Load(EIGHT), 0.0)

    assert pace.view(1, EIGHT) == PaceView()


# -- beside streams -----------------------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 8, 16])
@pytest.mark.parametrize("position", [0.1, 0.5, 5.0])
def test_a_step_with_a_prompt_takes_at_most_twice_as_long_as_the_streams_alone(count: int, position: float) -> None:
    streams, cost = Streams(count, 100 * count), machine(position=position)
    pace = warmed(cost, streams)

    times = compute(pace, cost, streams=streams)

    alone = cost(Load(streams))
    least = alone + position * prompt_work(LONG, MIN_POSITIONS) / 1e3
    assert max(times) < 1.05 * max(STRETCH * alone, least)


def test_nor_does_a_step_stay_much_shorter_than_that() -> None:
    cost = machine()
    pace = warmed(cost)

    times = compute(pace, cost)

    assert sorted(times)[len(times) // 2] > 0.9 * STRETCH * cost(Load(EIGHT))


def test_noise_and_outliers_do_not_upset_it() -> None:
    quiet, draw = machine(), random.Random(1)

    def noisy(load: Load) -> float:
        return quiet(load) * draw.gauss(1.0, 0.06) * (5 if draw.random() < 0.01 else 1)

    pace = warmed(noisy)

    times = compute(pace, noisy, length=16_384)

    assert sorted(times)[int(0.98 * len(times))] < 2.6 * quiet(Load(EIGHT))


@pytest.mark.parametrize("load", [Load(EIGHT), Load(EIGHT, work=30.0), Load(Streams(), work=500.0)])
def test_a_step_that_took_for_ever_moves_what_was_learned_by_a_quarter_at_most(load: Load) -> None:
    pace = warmed(machine())
    compute(pace, machine())
    before = pace.view(1, EIGHT)

    pace.observe(load, 60.0)

    after = pace.view(1, EIGHT)
    for cost in ("goal", "position_alone", "position_beside"):
        assert getattr(after, cost) <= 1.251 * getattr(before, cost)


def test_a_machine_that_becomes_busy_is_noticed_within_a_few_steps() -> None:
    pace = warmed(machine())
    compute(pace, machine())
    busy = machine(step=10, stream=2, position=1)

    times = compute(pace, busy)

    alone = busy(Load(EIGHT))
    assert times[1] < 1.1 * alone, "a step that took so much longer is followed by one that looks why"
    assert max(times[1:8]) < 1.3 * STRETCH * alone
    assert max(times[8:]) < 1.1 * STRETCH * alone
    assert sorted(times)[len(times) // 2] > 0.9 * STRETCH * alone


def test_a_machine_that_becomes_busy_amid_a_prompt_is_no_reason_to_hold_the_prompt_up() -> None:
    pace = warmed(machine())
    quiet = compute(pace, machine())

    times = compute(pace, machine(step=15, stream=3, position=1.5))

    assert len(times) < 1.2 * len(quiet)


def test_the_more_prompts_wait_for_a_stream_the_longer_a_step_may_take_but_never_beyond_three_times() -> None:
    cost = machine(step=50.0)
    pace = warmed(cost)

    goals = [pace.goal(num_prompts, EIGHT) / cost(Load(EIGHT)) for num_prompts in (1, 5, 9, 100)]

    assert goals == pytest.approx([STRETCH, STRETCH + 0.5, MAX_STRETCH, MAX_STRETCH], rel=0.01)


def test_where_more_prompts_than_streams_wait_a_quick_step_may_take_as_long_as_nobody_feels() -> None:
    cost = machine(step=2.0, stream=0.1)
    pace = warmed(cost)

    goals = [pace.goal(num_prompts, EIGHT) for num_prompts in (8, 9)]

    assert goals == pytest.approx([cost(Load(EIGHT)) * (STRETCH + 7 / 8), UNFELT_SECONDS], rel=0.01)


def test_a_prompt_gets_the_time_of_a_few_positions_even_where_there_is_none() -> None:
    pace = Pace(max_step_seconds=0.001)
    prompt = Load(Streams(), prompt_work(0, 64))
    pace.observe(prompt, machine()(prompt))
    stream_alone(pace, machine())

    assert 1 <= most(pace, EIGHT, 0) <= MIN_POSITIONS


def test_a_limit_that_was_set_holds_with_and_without_streams() -> None:
    cost = machine()
    pace = Pace(max_step_seconds=0.05)
    compute(pace, cost, streams=Streams())
    stream_alone(pace, cost)

    assert max(compute(pace, cost, streams=Streams())) < 0.055
    assert max(compute(pace, cost)) < 0.055


def test_now_and_then_a_step_shows_what_the_streams_alone_take() -> None:
    cost = machine()
    pace = warmed(cost)
    crowd = Streams(16, 3_200)

    rooms = []
    for _ in range(3 * LOOK_EVERY):
        count = most(pace, crowd, 0)
        rooms.append(count)
        pace.observe(Load(crowd, prompt_work(0, count)), cost(Load(crowd, prompt_work(0, count))))

    assert [count == 1 for count in rooms] == ([False] * (LOOK_EVERY - 1) + [True]) * 3
    assert pace.goal(1, crowd) == pytest.approx(STRETCH * cost(Load(crowd)), rel=0.15)


# -- without streams ----------------------------------------------------------------------------


def test_prompts_alone_have_about_a_second() -> None:
    cost = machine(position=2.0)
    pace = warmed(cost)

    times = compute(pace, cost, streams=Streams(), length=4_000)

    assert max(times) < 1.2 * ALONE_SECONDS
    assert times[-2] > 0.9 * ALONE_SECONDS


def test_a_model_whose_every_step_is_slow_gets_longer_ones() -> None:
    cost = machine(step=400.0, stream=50.0, position=50.0)
    pace = Pace()
    compute(pace, cost, streams=Streams(), length=400)
    stream_alone(pace, cost)

    times = compute(pace, cost, streams=Streams(), length=400)

    assert times[0] > 2 * ALONE_SECONDS


def test_a_prompt_of_a_few_tokens_does_not_tell_what_a_position_costs() -> None:
    cost = machine()
    pace = warmed(cost)
    before = pace.view(1, Streams()).position_alone

    for _ in range(20):
        pace.observe(Load(Streams(), prompt_work(0, 2)), 0.006)

    assert pace.view(1, Streams()).position_alone == before


# -- scores -------------------------------------------------------------------------------------


@pytest.mark.parametrize("score", [0.2, 2.0, 10.0])
def test_rows_of_logits_count_by_what_they_take(score: float) -> None:
    cost = machine(score=score)
    pace = warmed(cost)
    compute(pace, cost, length=600, scored=True)

    times = compute(pace, cost, length=600, scored=True)

    assert max(times) < 1.25 * STRETCH * cost(Load(EIGHT)) + score * 2 / 1e3


def test_dear_rows_do_not_make_positions_dear() -> None:
    cost = machine(score=5.0)
    pace = warmed(cost)
    compute(pace, cost)
    before = pace.prices(EIGHT)
    compute(pace, cost, length=600, scored=True)

    after = pace.prices(EIGHT)

    assert after.position == pytest.approx(before.position, rel=0.05)
    assert after.score == pytest.approx(5e-3, rel=0.2)


# -- loads --------------------------------------------------------------------------------------


def a_chunk(start: int, count: int, *, chooses: bool = False, scores: int = 0) -> Chunk:
    choose = Choose(GREEDY, choice=0, output_index=0) if chooses else None
    score = Score(start, (2,) * scores, 0) if scores else None
    return Chunk(Ticket("sequence", 0, 0, start, ()), (2,) * count, choose, score)


def test_a_load_tells_streams_from_prompts() -> None:
    chunks = [a_chunk(9, 1, chooses=True), a_chunk(99, 1, chooses=True), a_chunk(64, 32, chooses=True)]

    load = load_of([*chunks, a_chunk(0, 16, scores=15), a_chunk(7, 1)])

    assert load == Load(
        Streams(count=2, context=110), prompt_work(64, 32) + prompt_work(0, 16) + prompt_work(7, 1), num_scores=16
    )


def test_a_price_grows_with_every_position_and_row() -> None:
    prices = Prices(position=0.5, score=0.25)

    assert prices.of(0, 0, 0) == 0
    assert prices.of(0, 4, 0) < prices.of(0, 5, 0) < prices.of(1_000, 5, 0) < prices.of(1_000, 5, 1)


ONE, FOURTEEN = Streams(1), Streams(14)


# -- drafts -----------------------------------------------------------------------------------


def draft_some(pace: Pace, steps: int, *, count: int, price: float, rest: float = 6.25) -> None:
    for _ in range(steps):
        num_drafts = 0 if pace.price_of_drafts(ONE) is None else count
        pace.observe(Load(Streams(1, 0), num_drafts=num_drafts), rest + price * num_drafts)


def test_the_first_step_of_streams_alone_is_without_drafts() -> None:
    pace = Pace()
    assert pace.price_of_drafts(ONE) is None

    pace.observe(Load(Streams(1, 0)), 6.25)

    assert pace.price_of_drafts(ONE) is not None


@pytest.mark.parametrize("price", [0.1, 0.5, 3.0])
def test_what_a_drafted_token_costs_is_learned(price: float) -> None:
    pace = Pace()

    draft_some(pace, 60, count=8, price=price)

    learned = pace.price_of_drafts(ONE)
    assert learned is not None
    assert learned.of(8) == pytest.approx(8 * price, rel=0.1)
    assert pace.seconds_of(Streams(1, 0)) == pytest.approx(6.25, rel=0.05)


def test_now_and_then_a_step_shows_what_the_streams_take_without_drafts() -> None:
    pace = Pace()
    draft_some(pace, 2, count=4, price=0.5)

    bare = 0
    for _ in range(3 * LOOK_DRAFTS_EVERY):
        bare += pace.price_of_drafts(ONE) is None
        draft_some(pace, 1, count=4, price=0.5)

    assert bare in (2, 3)


def test_a_load_tells_drafts_from_prompts() -> None:
    drafted = replace(a_chunk(9, 4, chooses=True), num_drafts=3, source="lookup")

    assert load_of([drafted]) == Load(Streams(count=1, context=10), num_drafts=3)


def test_one_slow_first_step_makes_drafts_dear_for_a_few_steps_alone() -> None:
    pace = Pace()
    pace.observe(Load(Streams(), prompt_work(0, 20)), 0.7)

    for _ in range(30):
        pace.observe(Load(Streams(1, 30)), 0.004)

    price = pace.price_of_drafts(ONE)
    assert price is not None
    assert price.of(1) < 0.6 * pace.seconds_of(Streams(1, 30))


def crowd(pace: Pace, steps: int, *, rest: float, token: float, tile: float) -> None:
    """Steps of 14 streams in tiles of 16 rows, with two drafted tokens and with six by turns."""
    for number in range(steps):
        count = 0 if pace.price_of_drafts(FOURTEEN) is None else (2, 6)[number % 2]
        opened = tile if count > 2 else 0.0
        pace.observe(Load(FOURTEEN, num_drafts=count), rest + token * count + opened)


@pytest.mark.parametrize("tile", [8.0, 30.0])
def test_what_it_costs_to_open_a_tile_of_rows_is_learned_apart(tile: float) -> None:
    pace = Pace(row_tile=16)

    crowd(pace, 200, rest=20.0, token=3.0, tile=tile)

    price = pace.price_of_drafts(FOURTEEN)
    assert price is not None
    assert price.of(2) == pytest.approx(6.0, rel=0.1)
    assert price.of(3) == pytest.approx(9.0 + tile, rel=0.2)


def test_rows_that_cost_alike_open_no_tiles() -> None:
    price = DraftPrice(token=1.0, tile=9.0, rows=16, row_tile=None)

    assert [price.of(count) for count in (0, 1, 17)] == [0.0, 1.0, 17.0]


def test_the_first_row_of_each_tile_costs_the_tile() -> None:
    price = DraftPrice(token=1.0, tile=9.0, rows=15, row_tile=16)

    assert [price.of(count) for count in (0, 1, 2, 17, 18)] == [0.0, 1.0, 11.0, 26.0, 36.0]


# -- the draft model --------------------------------------------------------------------------

GUESSING = Load(Streams(1, 0), num_drafts=3, num_rounds=3, num_fed=6)  # of four accepted tokens and two guesses


def test_before_its_first_guess_the_draft_model_costs_nothing() -> None:
    pace = Pace()

    assert pace.price_of_rounds() == RoundPrice(0.0, 0.0)
    assert pace.num_fed_within(0.0) == MAX_FED


def test_what_the_draft_model_costs_is_learned_from_its_own_time_and_no_other_part_of_a_step() -> None:
    pace, apart = Pace(), Pace()
    for each in (pace, apart):
        each.observe(Load(Streams(1, 0)), 6.25)

    for _ in range(40):
        pace.observe(GUESSING, 7.0 + 3.0, 3.0)
        apart.observe(replace(GUESSING, num_rounds=0, num_fed=0), 7.0)

    rounds, unit = pace.price_of_rounds(), 3.0 / (3 * FIXED_UNITS + 6)
    assert rounds.of(6, 3) == pytest.approx(3.0)
    assert rounds.least == pytest.approx(unit)
    assert pace.num_fed_within(100 * unit) == 100 - FIXED_UNITS
    assert pace.num_fed_within(0.0) == 0
    view, other = (each.view(1, ONE) for each in (pace, apart))
    assert (view.round, view.guess) == (rounds.fixed, rounds.token)
    assert replace(view, round=0.0, guess=0.0) == other


def test_one_slow_step_of_the_draft_model_is_not_believed_at_once() -> None:
    pace = Pace()
    pace.observe(GUESSING, 10.0, 1.0)
    before = pace.price_of_rounds().fixed

    pace.observe(GUESSING, 1000.0, 100.0)
    pace.observe(GUESSING, 10.0, 0.0)

    assert before < pace.price_of_rounds().fixed < 2 * before


def test_what_seemed_too_dear_is_tried_again_some_day() -> None:
    pace = Pace()
    pace.observe(GUESSING, 10.0, 1.0)
    before = pace.price_of_rounds().fixed

    for _ in range(3000):
        pace.observe(Load(Streams(1, 0)), 6.25)

    assert before / 4 < pace.price_of_rounds().fixed < before / 2


def test_the_load_of_a_step_counts_the_rounds_of_the_draft_model_and_its_positions() -> None:
    def fed(num_tokens: int, num_guesses: int) -> Chunk:
        ticket = Ticket("s", 0, 1, 20, ())
        feed = Feed(21 - num_tokens, (2,) * num_tokens)
        return Chunk(ticket, (2,), Choose(GREEDY, 0, 1), num_drafts=num_guesses, feed=feed, num_guesses=num_guesses)

    load = load_of([fed(2, 3), fed(1, 1)])

    assert (load.num_drafts, load.num_rounds, load.num_fed) == (4, 3, 2 + 2 + 1)
    assert (load_of([fed(8, 0)]).num_rounds, load_of([fed(8, 0)]).num_fed) == (1, 8)
