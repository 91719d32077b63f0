import pytest

from engine.ledger import Accepted, Computed, Drafted, Ledger, Marks, Planned, Positions, Published


def a_ledger(prompt_tokens: int = 4) -> tuple[Ledger, Positions]:
    positions = Positions()
    return Ledger(prompt_tokens=prompt_tokens, positions=positions), positions


def marks(planned: int, computed: int, accepted: int, published: int) -> Marks:
    return Marks(Planned(planned), Computed(computed), Accepted(accepted), Published(published))


def test_the_marks_move_as_the_design_tells() -> None:
    ledger, _ = a_ledger(prompt_tokens=4)
    moments = [ledger.marks]

    ledger.admit(0)
    ledger.plan(Planned(4))
    moments.append(ledger.marks)
    ledger.commit(Computed(4), Accepted(5))
    moments.append(ledger.marks)
    ledger.plan(Planned(5 + 3))
    moments.append(ledger.marks)
    ledger.commit(Computed(5 + 2), Accepted(6 + 2))
    moments.append(ledger.marks)
    ledger.publish(Published(8))
    moments.append(ledger.marks)

    assert moments == [
        marks(0, 0, 4, 4),
        marks(4, 0, 4, 4),
        marks(4, 4, 5, 4),
        marks(8, 4, 5, 4),
        marks(7, 7, 8, 4),
        marks(7, 7, 8, 8),
    ]


def test_positions_count_each_move_once() -> None:
    ledger, positions = a_ledger(prompt_tokens=4)
    ledger.admit(2)
    ledger.plan(Planned(4))
    ledger.commit(Computed(4), Accepted(5))
    ledger.plan(Planned(8))
    ledger.commit(Computed(6), Accepted(7))
    ledger.publish(Published(6))

    assert positions == Positions(planned=6, computed=4, accepted=3, published=2, rejected=2, recomputed=0)


def test_what_is_computed_again_is_counted_as_recomputed() -> None:
    ledger, positions = a_ledger(prompt_tokens=6)
    ledger.plan(Planned(4))
    ledger.commit(Computed(4), Accepted(6))
    ledger.invalidate()
    ledger.admit(1)
    ledger.plan(Planned(6))
    ledger.commit(Computed(6), Accepted(7))

    assert (positions.computed, positions.recomputed) == (9, 3)


def test_an_invalidation_takes_nothing_from_what_was_accepted_and_published() -> None:
    ledger, _ = a_ledger(prompt_tokens=2)
    ledger.plan(Planned(2))
    ledger.commit(Computed(2), Accepted(3))
    ledger.publish(Published(3))

    ledger.invalidate()

    assert ledger.marks == marks(0, 0, 3, 3)
    ledger.check()


def test_a_hit_leaves_a_token_to_compute() -> None:
    ledger, _ = a_ledger(prompt_tokens=4)

    with pytest.raises(AssertionError, match="leaves at least one token"):
        ledger.admit(4)


def test_nothing_is_planned_twice() -> None:
    ledger, _ = a_ledger()
    ledger.plan(Planned(2))

    with pytest.raises(AssertionError, match="one step in flight"):
        ledger.plan(Planned(4))


def test_a_plan_computes_something() -> None:
    ledger, _ = a_ledger()
    ledger.admit(2)

    with pytest.raises(AssertionError, match="computes something"):
        ledger.plan(Planned(2))


@pytest.mark.parametrize("computed", [0, 5])
def test_a_commit_stays_within_its_plan(computed: int) -> None:
    ledger, _ = a_ledger()
    ledger.plan(Planned(4))

    with pytest.raises(AssertionError, match="what was planned"):
        ledger.commit(Computed(computed), Accepted(5))


def test_accepted_never_goes_down() -> None:
    ledger, _ = a_ledger()
    ledger.plan(Planned(4))

    with pytest.raises(AssertionError, match="accepted never goes down"):
        ledger.commit(Computed(4), Accepted(3))


@pytest.mark.parametrize("upto", [3, 5])
def test_published_grows_and_stays_within_accepted(upto: int) -> None:
    ledger, _ = a_ledger(prompt_tokens=4)

    with pytest.raises(AssertionError, match="growing prefix"):
        ledger.publish(Published(upto))


def test_a_step_in_flight_is_what_planned_is_ahead() -> None:
    ledger, _ = a_ledger()
    assert not ledger.in_flight

    ledger.plan(Planned(1))
    assert ledger.in_flight


def test_a_copy_of_the_counts_stands_still() -> None:
    ledger, positions = a_ledger()
    before = positions.copy()
    ledger.plan(Planned(1))

    assert (before.planned, positions.planned) == (0, 1)


def test_the_draft_model_s_mark_follows_the_target_s_and_falls_with_it() -> None:
    ledger, _ = a_ledger(prompt_tokens=4)
    ledger.admit(3, 2)
    at_the_hit = int(ledger.drafted)
    ledger.plan(Planned(4))
    ledger.commit(Computed(4), Accepted(5))
    ledger.draft(Drafted(4))
    ledger.check()
    behind_the_prompt = int(ledger.drafted)
    ledger.draft(Drafted(3))
    ledger.invalidate()

    assert (at_the_hit, behind_the_prompt, int(ledger.drafted)) == (2, 4, 0)


def test_the_draft_model_is_never_ahead_of_the_target() -> None:
    ledger, _ = a_ledger(prompt_tokens=4)

    with pytest.raises(AssertionError, match="never ahead"):
        ledger.admit(2, 3)
    ledger.admit(2, 2)
    with pytest.raises(AssertionError, match="never ahead"):
        ledger.draft(Drafted(3))
