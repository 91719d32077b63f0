import asyncio

import pytest

from engine.errors import SlowReader
from engine.ledger import Positions
from engine.request import Delta, End, FinishReason, Usage
from engine.sequence import Sequence
from engine.stream import DeltaStream
from tests.laws.loop import VirtualLoop
from tests.parts import a_request

END = End(FinishReason.LENGTH, Usage(2, 0, 1))


class Held:
    """A stream of one request, with what it told the engine, on a loop whose time stands still."""

    def __init__(self, loop: VirtualLoop, *, max_deltas: int = 4, num_choices: int = 1) -> None:
        request = a_request((2, 3), num_choices=num_choices)
        self.sequences = [
            Sequence(request, choice, number=choice, max_length=9, positions=Positions(), arrived_at=0.0)
            for choice in range(num_choices)
        ]
        self.loop = loop
        self.num_wakes = 0
        self.num_disconnects = 0
        self.stream = DeltaStream(
            self.sequences,
            max_deltas=max_deltas,
            slow_reader_seconds=10.0,
            wake=self._count_wake,
            on_disconnect=self._count_disconnect,
        )

    def _count_wake(self) -> None:
        self.num_wakes += 1

    def _count_disconnect(self) -> None:
        self.num_disconnects += 1

    def put(self, *texts: str, choice: int = 0) -> None:
        """Hand texts over, as the engine does."""

        async def put_all() -> None:
            for text in texts:
                self.stream.put(Delta(choice, text))

        self.loop.run_until_complete(put_all())

    def end(self, choice: int = 0) -> None:
        """End a choice."""

        async def put_end() -> None:
            self.stream.put(Delta(choice, end=END))

        self.loop.run_until_complete(put_end())

    def read(self, count: int) -> list[str]:
        """Read deltas that are there."""

        async def read_all() -> list[str]:
            return [(await anext(self.stream)).text for _ in range(count)]

        return self.loop.run_until_complete(read_all())

    def read_out(self) -> list[str]:
        """Read to the end."""

        async def read_all() -> list[str]:
            return [delta.text async for delta in self.stream]

        return self.loop.run_until_complete(read_all())


@pytest.fixture
def loop() -> VirtualLoop:
    return VirtualLoop()


@pytest.fixture(autouse=True)
def _closed(loop: VirtualLoop) -> object:
    yield
    loop.close()


def test_deltas_come_in_order_and_stop_after_the_last_end(loop: VirtualLoop) -> None:
    held = Held(loop, num_choices=2)
    held.put("a", "b")
    held.end(0)
    held.put("c", choice=1)
    held.end(1)

    assert held.read_out() == ["a", "b", "", "c", ""]
    assert held.read_out() == []


def test_a_reader_waits_for_the_next_delta(loop: VirtualLoop) -> None:
    held = Held(loop)
    reader = loop.create_task(anext(held.stream))
    loop.settle()
    assert not reader.done()

    held.put("a")
    loop.settle()

    assert reader.result().text == "a"


def test_a_full_stream_stalls_all_its_sequences_until_half_of_it_is_read(loop: VirtualLoop) -> None:
    held = Held(loop, max_deltas=4, num_choices=2)
    held.put("a", "b", "c")
    assert not held.sequences[0].stalled

    held.put("d")
    assert [sequence.stalled for sequence in held.sequences] == [True, True]
    held.read(1)
    assert held.sequences[0].stalled
    held.read(1)

    assert [sequence.stalled for sequence in held.sequences] == [False, False]
    assert held.num_wakes == 1


def test_a_stream_that_is_not_read_in_time_ends_as_a_slow_reader(loop: VirtualLoop) -> None:
    held = Held(loop, max_deltas=2)
    held.put("a", "b")

    loop.advance(9.0)
    assert not held.sequences[0].aborted
    loop.advance(2.0)

    assert held.sequences[0].aborted
    assert isinstance(held.sequences[0].abort_error, SlowReader)
    assert held.num_disconnects == 0
    held.end()
    assert held.read_out() == ["a", "b", ""]


def test_patience_starts_anew_with_each_stall(loop: VirtualLoop) -> None:
    held = Held(loop, max_deltas=2)
    held.put("a", "b")
    loop.advance(9.0)
    held.read(2)
    held.put("c", "d")

    loop.advance(9.0)
    assert not held.sequences[0].aborted
    loop.advance(2.0)

    assert held.sequences[0].aborted


def test_a_stream_that_is_full_at_its_end_stalls_nobody(loop: VirtualLoop) -> None:
    held = Held(loop, max_deltas=1)

    held.end()

    assert not held.sequences[0].stalled
    loop.advance(11.0)
    assert not held.sequences[0].aborted


def test_leaving_aborts_what_has_not_ended(loop: VirtualLoop) -> None:
    held = Held(loop, num_choices=2)
    held.end(0)

    async def leave() -> None:
        async with held.stream:
            await anext(held.stream)

    loop.run_until_complete(leave())

    assert held.sequences[1].aborted
    assert held.sequences[1].abort_error is None
    assert (held.num_wakes, held.num_disconnects) == (1, 1)


def test_leaving_after_the_last_end_aborts_nothing(loop: VirtualLoop) -> None:
    held = Held(loop)
    held.end()
    held.read_out()

    held.stream.close()

    assert not held.sequences[0].aborted
    assert held.num_disconnects == 0


def test_closing_twice_counts_once(loop: VirtualLoop) -> None:
    held = Held(loop)

    held.stream.close()
    held.stream.close()

    assert (held.num_wakes, held.num_disconnects) == (1, 1)


def test_closing_ends_the_reader_that_waits_and_drops_what_it_did_not_read(loop: VirtualLoop) -> None:
    held = Held(loop)
    held.put("a")
    waiting = Held(loop)
    reader = loop.create_task(anext(waiting.stream, None))
    loop.settle()

    held.stream.close()
    waiting.stream.close()
    loop.settle()

    assert held.read_out() == []
    assert reader.result() is None


def test_closing_a_stalled_stream_forgets_its_patience(loop: VirtualLoop) -> None:
    held = Held(loop, max_deltas=1)
    held.put("a")

    held.stream.close()
    loop.advance(11.0)

    assert held.sequences[0].abort_error is None


def test_a_choice_ends_once(loop: VirtualLoop) -> None:
    held = Held(loop, num_choices=2)
    held.end(0)

    with pytest.raises(AssertionError, match="ends once"):
        held.end(0)


def test_a_reader_that_is_cancelled_leaves_the_stream_usable(loop: VirtualLoop) -> None:
    held = Held(loop)
    reader = loop.create_task(anext(held.stream))
    loop.settle()
    reader.cancel()
    loop.settle()
    assert isinstance(reader, asyncio.Task)
    assert reader.cancelled()

    held.put("a")

    assert held.read(1) == ["a"]


# -- parking ----------------------------------------------------------------------------------


def test_a_client_that_leaves_to_come_back_loses_nothing(loop: VirtualLoop) -> None:
    held = Held(loop)
    held.put("a", "b")

    held.stream.park()
    held.put("c")  # of the step that was in flight
    parked = held.sequences[0].parked
    held.stream.unpark()

    assert (parked, held.sequences[0].parked, held.num_wakes) == (True, False, 2)
    assert held.read(3) == ["a", "b", "c"]


def test_a_client_that_leaves_to_come_back_is_counted_once_each_time(loop: VirtualLoop) -> None:
    held = Held(loop)

    held.stream.park()
    held.stream.park()
    held.stream.unpark()
    held.stream.unpark()
    held.stream.park()
    held.stream.close()

    assert held.num_disconnects == 2
    assert held.sequences[0].aborted


@pytest.mark.parametrize("closed", [True, False])
def test_what_has_ended_is_not_parked(loop: VirtualLoop, closed: bool) -> None:
    held = Held(loop)
    held.put("a")
    if closed:
        held.stream.close()
    else:
        held.end()

    held.stream.park()
    held.stream.unpark()

    assert not held.sequences[0].parked
    assert held.num_disconnects == closed


def test_a_parked_stream_is_not_given_up_for_being_unread(loop: VirtualLoop) -> None:
    held = Held(loop, max_deltas=1)
    held.put("a")
    held.stream.park()
    loop.advance(11.0)
    assert not held.sequences[0].aborted

    loop.call_soon(held.stream.unpark)
    loop.advance(0.0)
    loop.advance(11.0)

    assert isinstance(held.sequences[0].abort_error, SlowReader)


def test_a_stream_that_fills_as_it_is_parked_has_patience_once_its_client_is_back(loop: VirtualLoop) -> None:
    held = Held(loop, max_deltas=2)
    held.stream.park()
    held.put("a", "b")
    loop.advance(11.0)
    assert held.sequences[0].stalled

    loop.call_soon(held.stream.unpark)
    loop.settle()

    assert held.read(2) == ["a", "b"]
    assert not held.sequences[0].stalled
    assert not held.sequences[0].aborted
