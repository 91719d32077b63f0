from engine.course import Course, Event, Moment
from engine.request import Usage
from engine.stats import StepRecord, StepRow
from server.timelines import MAX_ENDED, MAX_FALLEN, MAX_MOMENTS, Ended, Timelines

ROW = StepRow("one/0", 5, 5, 6, 5, (0, 5), (7,), ())


QUEUED, ADMITTED = Moment(Event.QUEUED, 0.0), Moment(Event.ADMITTED, 0.5, cached=0)


def a_course(*moments: Moment, admitted_at: float | None = None) -> Course:
    return Course(0, Usage(5, 0, 0), 0, 0, 0, 0.0, admitted_at, None, None, moments)


def record(step: int, *rows: StepRow) -> StepRecord:
    return StepRecord(step, rows, at=float(step), seconds=0.5)


def test_a_timeline_has_the_steps_of_one_sequence_in_order() -> None:
    timelines = Timelines()

    timelines.note(record(1, ROW, ROW._replace(sequence="two/0")))
    timelines.note(record(2, ROW))

    [timeline] = timelines.of("one")
    assert [(each.step, each.at, each.seconds, each.row) for each in timeline.rows] == [
        (1, 1.0, 0.5, ROW), (2, 2.0, 0.5, ROW)
    ]  # fmt: skip
    assert timeline.complete


def test_a_request_has_the_timelines_of_its_prompts_and_choices_and_of_no_others() -> None:
    timelines = Timelines()
    sequences = ("one/0", "one/1", "one-0/0", "one-1/0", "ones/0", "on/0")

    timelines.note(record(1, *(ROW._replace(sequence=sequence) for sequence in sequences)))

    assert [timeline.sequence for timeline in timelines.of("one")] == ["one/0", "one/1", "one-0/0", "one-1/0"]
    assert timelines.of("two") == []


def test_of_what_was_under_way_the_first_steps_are_missing() -> None:
    timelines = Timelines()
    timelines.note(record(1, ROW))

    timelines.begin({"one/0": a_course(admitted_at=0.5)})
    before = timelines.of("one")
    timelines.note(record(2, ROW, ROW._replace(sequence="two/0")))

    assert before == []
    assert [timeline.complete for timeline in (*timelines.of("one"), *timelines.of("two"))] == [False, True]


def test_of_too_much_the_sequence_goes_whose_last_step_is_longest_ago() -> None:
    timelines = Timelines(max_rows=4)
    for step, sequence in enumerate(("one/0", "two/0", "one/0", "three/0", "one/0")):
        timelines.note(record(step, ROW._replace(sequence=sequence)))

    assert timelines.of("two") == []
    assert [each.step for each in timelines.of("one")[0].rows] == [0, 2, 4]
    timelines.note(record(9, ROW._replace(sequence="two/0")))
    assert [timeline.complete for timeline in timelines.of("two")] == [False]


def test_of_one_long_timeline_the_beginning_goes() -> None:
    timelines = Timelines(max_rows=4)
    for step in range(5):
        timelines.note(record(step, ROW))

    [timeline] = timelines.of("one")
    assert [each.step for each in timeline.rows] == [3, 4]
    assert not timeline.complete


def test_however_many_sequences_there_were_a_bounded_number_is_remembered() -> None:
    timelines = Timelines(max_rows=1)

    for number in range(5000):
        timelines.note(record(number, ROW._replace(sequence=f"{number}/0")))

    assert len(timelines._cut) <= 4096
    assert len(timelines._timelines) == 1


def test_drafts_that_fell_are_numbered_and_those_that_stood_are_none() -> None:
    timelines = Timelines()
    drafted = ROW._replace(drafts=(7, 8, 9), source="prediction")

    timelines.note(record(1, drafted._replace(num_kept=3)))
    timelines.note(record(2, drafted._replace(num_kept=1), drafted._replace(num_kept=0)))

    assert timelines.num_fallen == 2
    assert [(each.number, each.step, each.row.num_kept) for each in timelines.fallen(0, 2)] == [(1, 2, 1), (2, 2, 0)]
    assert [each.number for each in timelines.fallen(1, 2)] == [2]
    assert timelines.fallen(2, 2) == []


def test_a_bounded_number_of_fallen_drafts_is_kept() -> None:
    timelines = Timelines(max_rows=8)
    for step in range(MAX_FALLEN + 5):
        timelines.note(record(step, ROW._replace(drafts=(7,))))

    assert len(timelines.fallen(0, timelines.num_fallen)) == MAX_FALLEN


def test_a_timeline_has_what_befell_its_sequence_and_how_it_ended() -> None:
    timelines = Timelines()

    timelines.hear("one/0", QUEUED)
    [waits] = timelines.of("one")
    before = waits.end
    timelines.note(record(1, ROW))
    timelines.hear("one/0", Moment(Event.ENDED, 2.0, reason="abort"))

    [timeline] = timelines.of("one")
    assert [moment.event for moment in timeline.moments] == [Event.QUEUED, Event.ENDED]
    assert before is None
    assert timeline.end == Moment(Event.ENDED, 2.0, reason="abort")
    assert timeline.complete


def test_what_befell_a_sequence_before_anybody_watched_is_known_and_its_steps_are_not() -> None:
    timelines = Timelines()

    timelines.begin({"one/0": a_course(QUEUED, ADMITTED, admitted_at=0.5), "two/0": a_course(QUEUED)})
    timelines.note(record(1, ROW, ROW._replace(sequence="two/0")))

    [one], [two] = timelines.of("one"), timelines.of("two")
    assert (list(one.moments), list(two.moments)) == ([QUEUED, ADMITTED], [QUEUED])
    assert (one.complete, two.complete) == (False, True)


def test_the_last_that_befell_a_sequence_is_kept_and_all_of_it_is_counted() -> None:
    timelines = Timelines()
    for number in range(MAX_MOMENTS + 5):
        timelines.hear("one/0", Moment(Event.PAUSED, float(number)))

    [timeline] = timelines.of("one")
    assert (timeline.num_moments, len(timeline.moments)) == (MAX_MOMENTS + 5, MAX_MOMENTS)
    assert timeline.moments[0].at == 5.0


def test_of_too_many_sequences_those_that_wait_go_first_and_lose_no_step() -> None:
    timelines = Timelines(max_timelines=2)
    timelines.begin({"runs/0": a_course(QUEUED, ADMITTED, admitted_at=0.5), "waits/0": a_course(QUEUED)})

    timelines.hear("new/0", QUEUED)

    assert timelines.of("waits") == []
    assert [timeline.rows for timeline in timelines.of("runs")] == [[]]
    timelines.note(record(1, ROW._replace(sequence="waits/0")))
    assert [timeline.complete for timeline in timelines.of("waits")] == [True]


def test_sequences_that_end_are_numbered_and_a_bounded_number_is_kept() -> None:
    timelines, end = Timelines(), Moment(Event.ENDED, 2.0, reason="stop")
    timelines.hear("one/0", QUEUED)

    for number in range(MAX_ENDED + 5):
        timelines.hear(f"{number}/0", end)

    assert timelines.num_ended == MAX_ENDED + 5
    assert timelines.ended(7, 9) == [Ended(8, "7/0", end), Ended(9, "8/0", end)]
    assert len(timelines.ended(0, timelines.num_ended)) == MAX_ENDED
    timelines.begin({})
    assert timelines.ended(0, timelines.num_ended) == []
