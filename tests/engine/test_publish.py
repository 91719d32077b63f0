import pytest

from engine.errors import EngineStopped
from engine.ledger import Accepted, Computed, Planned, Positions
from engine.publish import Publisher
from engine.request import Delta, End, FinishReason, OutputToken
from engine.sequence import Sequence
from engine.step import Advance
from engine.stream import DeltaStream
from tests.parts import a_request

pytestmark = pytest.mark.anyio


class Connected:
    """Two choices of one request, joined to a stream."""

    def __init__(self) -> None:
        request = a_request((2, 3), num_choices=2)
        self.sequences = [
            Sequence(request, choice, number=choice, max_length=9, positions=Positions(), arrived_at=0.0)
            for choice in (0, 1)
        ]
        self.stream = DeltaStream(
            self.sequences, max_deltas=8, slow_reader_seconds=1.0, wake=lambda: None, on_disconnect=lambda: None
        )
        self.publisher = Publisher()
        self.publisher.connect(self.sequences, self.stream)

    def accept(self, choice: int, *, end: bool = False) -> Advance:
        """Accept one more token of a choice."""
        sequence = self.sequences[choice]
        upto = len(sequence.tokens)
        sequence.tokens.append(7)
        sequence.ledger.plan(Planned(upto))
        sequence.ledger.commit(Computed(upto), Accepted(upto + 1))
        delta = Delta(
            choice,
            "x",
            (OutputToken(7, upto - 2, in_text=True),),
            end=End(FinishReason.LENGTH, sequence.usage) if end else None,
        )
        return Advance(sequence.id, sequence.ledger.marks, upto + 1, delta)


async def test_published_rises_with_what_is_put_into_the_stream() -> None:
    connected = Connected()
    advance = connected.accept(0)

    connected.publisher.publish([advance])

    assert connected.sequences[0].ledger.published == 3
    assert await anext(connected.stream) is advance.delta


async def test_an_advance_that_holds_everything_back_publishes_nothing() -> None:
    connected = Connected()
    advance = connected.accept(0)

    connected.publisher.publish([Advance(advance.sequence, advance.marks, 2, None)])

    assert connected.sequences[0].ledger.published == 2


async def test_the_choices_of_a_request_meet_in_one_stream() -> None:
    connected = Connected()

    connected.publisher.publish([connected.accept(1), connected.accept(0, end=True), connected.accept(1, end=True)])

    assert [delta.choice async for delta in connected.stream] == [1, 0, 1]


async def test_a_stream_whose_client_has_left_gets_nothing_and_publishes_nothing() -> None:
    connected = Connected()
    advances = [connected.accept(0, end=True), connected.accept(1, end=True)]
    connected.stream.close()

    connected.publisher.publish(advances)

    assert [sequence.ledger.published for sequence in connected.sequences] == [2, 2]
    assert [delta async for delta in connected.stream] == []


async def test_an_ended_sequence_is_forgotten() -> None:
    connected = Connected()
    connected.publisher.publish([connected.accept(0, end=True)])

    assert list(connected.publisher._outlets) == ["request/1"]


async def test_an_engine_that_cannot_go_on_ends_every_stream_that_is_left() -> None:
    connected, closed = Connected(), Connected()
    connected.publisher.publish([connected.accept(0, end=True)])
    closed.stream.close()

    for publisher in (connected.publisher, closed.publisher):
        publisher.end_all(EngineStopped())

    ends = [delta.end async for delta in connected.stream if delta.end]
    assert [end.reason for end in ends] == [FinishReason.LENGTH, FinishReason.ERROR]
    assert [delta async for delta in closed.stream] == []
