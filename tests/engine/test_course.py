"""What is remembered of a sequence's life, by a real engine."""

from collections.abc import Iterator

import pytest

from engine.course import Course, Event, Moment
from tests.laws.shape import Shape
from tests.laws.world import World
from tests.parts import a_request


@pytest.fixture
def world() -> Iterator[World]:
    made = World(Shape(num_blocks=8, block_size=2, max_sequences=3))
    yield made
    made.close()


def events(course: Course) -> list[str]:
    return [moment.event.value for moment in course.moments]


def test_a_request_is_admitted_and_ends_and_its_marks_are_those_of_its_usage(world: World) -> None:
    world.open([a_request(max_tokens=4, num_choices=2)], eager=True)
    world.drain()

    for choice, course in enumerate(world.clients[0].stream.courses):
        assert course.choice == choice
        assert events(course) == ["queued", "admitted", "ended"]
        assert course.usage.output_tokens == 4
        queued, admitted, ended = course.moments
        assert (queued.at, admitted.at) == (course.arrived_at, course.admitted_at)
        assert (admitted.cached, ended.reason) == (course.usage.cached_tokens, "length")
        assert course.first_output_at is not None
        assert course.last_output_at is not None
        assert queued.at <= admitted.at <= course.first_output_at <= course.last_output_at
        assert course.num_preemptions == 0


def test_who_waits_has_no_times_yet(world: World) -> None:
    world.open([a_request(id=str(number), max_tokens=2) for number in range(4)], eager=True)

    [course] = world.clients[3].stream.courses

    assert (course.admitted_at, course.first_output_at, course.last_output_at) == (None, None, None)
    assert course.moments == (Moment(Event.QUEUED, course.arrived_at),)
    world.drain()


def test_whose_client_leaves_and_comes_back_is_parked_waits_and_runs_again(world: World) -> None:
    world.open([a_request(max_tokens=6)], eager=True)
    [client] = world.clients
    world.finish_some(2)

    world.park(client)
    world.finish_some(1)
    world.unpark(client)
    world.drain()

    [course] = client.stream.courses
    assert events(course) == ["queued", "admitted", "preempted", "parked", "unparked", "resumed", "ended"]
    assert course.num_preemptions == 1
    assert course.moments[2].reason == "parked"


def test_who_loses_the_cache_to_another_waits_and_runs_again(world: World) -> None:
    world.open([a_request((2, 3, number), id=str(number), max_tokens=9) for number in (4, 5, 6)], eager=True)
    world.drain()

    courses = [course for client in world.clients for course in client.stream.courses]
    assert sum(course.num_preemptions for course in courses) == world.engine.snapshot().preemptions > 0
    for course in courses:
        lost = [moment for moment in course.moments if moment.event is Event.PREEMPTED]
        assert [moment.reason for moment in lost] == ["room"] * course.num_preemptions
        assert all(moment.lost and moment.freed for moment in lost)
        assert events(course).count("resumed") == course.num_preemptions


def test_a_step_that_fails_takes_the_cache_as_well(world: World) -> None:
    world.open([a_request(max_tokens=4)], eager=True)

    world.fail()
    world.drain()

    [course] = world.clients[0].stream.courses
    assert events(course) == ["queued", "admitted", "preempted", "resumed", "ended"]
    assert course.num_preemptions == 1
    assert course.moments[2].reason == "step_failed"


def test_what_befell_whose_client_has_left_can_still_be_asked(world: World) -> None:
    world.open([a_request(max_tokens=6)], eager=True)
    [client] = world.clients
    world.finish_some(2)

    world.leave(client, abruptly=False)
    world.finish_some(1)
    world.settle()

    [course] = client.stream.courses
    assert events(course) == ["queued", "admitted", "ended"]
    assert course.moments[-1].reason == "abort"
