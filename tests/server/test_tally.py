"""What the line of a request is made of."""

import pytest

from engine.course import Course, Event, Moment
from engine.request import Delta, End, FinishReason, OutputToken, Usage
from server.recorder import Endpoint, Outcome
from server.tally import Tally

USAGE = Usage(prompt_tokens=5, cached_tokens=3, output_tokens=3)


class Stream:
    """A request's stream, with what befell its choices."""

    def __init__(self, *courses: Course) -> None:
        self.courses = courses


def a_course(
    *, choice: int = 0, admitted: float | None = 2.0, first: float | None = 3.0, last: float | None = 4.0
) -> Course:
    return Course(choice, USAGE, 4, 1, 2, 1.0, admitted, first, last, (Moment(Event.ADMITTED, 2.0),))


def tally_of(*streams: Stream) -> Tally:
    tally = Tally(Endpoint.COMPLETIONS, prompt_tokens=5, output_tokens=0)
    tally.follow(streams)
    return tally


def test_a_refused_request_has_no_counts() -> None:
    tally = Tally(Endpoint.COMPLETIONS, model="m", stream=True, outcome=Outcome.REFUSED)

    told = {name: value for name, value in tally.fields.items() if value is not None}

    assert told == {"outcome": "refused", "model": "m", "stream": True}


def test_choices_share_their_prompt_and_add_up_in_everything_else() -> None:
    fields = tally_of(Stream(a_course(), a_course(choice=1)), Stream(a_course())).fields

    assert fields["choices"] == 3
    assert fields["cached_tokens"] == 3 + 3
    assert (fields["drafts_kept"], fields["drafts_rejected"], fields["preemptions"]) == (12, 3, 6)


def test_times_are_the_longest_wait_the_earliest_token_and_the_mean_gap() -> None:
    fields = tally_of(Stream(a_course(), a_course(choice=1, admitted=2.5, first=2.75, last=3.0))).fields

    assert fields["queue_seconds"] == 1.5
    assert fields["first_token_seconds"] == 1.75
    assert fields["gap_seconds"] == pytest.approx((1.0 + 0.25) / 4, abs=1e-4)


def test_what_has_not_happened_has_no_time() -> None:
    fields = tally_of(Stream(a_course(admitted=None, first=None, last=None))).fields

    assert fields["queue_seconds"] is fields["first_token_seconds"] is fields["gap_seconds"] is None


def test_the_reasons_of_all_choices_are_told_once_each() -> None:
    tally = tally_of(Stream(a_course()))

    for reason in (FinishReason.STOP, FinishReason.LENGTH, FinishReason.STOP):
        tally.count(Delta(0, "a", (OutputToken(1, 0, in_text=True),), end=End(reason, USAGE)))

    assert (tally.fields["finish_reason"], tally.fields["output_tokens"]) == ("length,stop", 3)


def test_what_has_ended_is_let_go_and_counts_still() -> None:
    stream, other = Stream(a_course()), Stream(a_course())
    tally = tally_of(stream, other)

    tally.leave([stream])
    stream.courses = ()

    assert tally.fields["choices"] == 2
    assert len(tally.courses) == 2


def test_an_answer_that_goes_on_without_its_client_is_parked() -> None:
    tally = tally_of(Stream(a_course()))

    assert tally.fields["outcome"] == "parked"
