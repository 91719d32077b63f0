"""Watchers see what a ledger of the same moment tells, whatever happens, and however seldom they look."""

import pytest
from hypothesis import settings, strategies as st
from hypothesis.stateful import invariant, precondition, rule, run_state_machine_as_test

import engine.view
from engine.course import Event, Moment
from engine.sequence import State
from server.lookout import Lookout, Sight
from tests.fakes import make_settings
from tests.laws.machine import EngineMachine
from tests.laws.world import World
from tests.server.render.sights import Watcher, hold_of

NUM_LIVES, NUM_RULES = 40, 40
WATCHED = st.sampled_from(("eager", "seldom"))


class WatchedMachine(EngineMachine):
    """One watcher looks after each rule, another now and then."""

    num_increments = 0
    num_rejections = 0
    num_preempted = 0
    num_unlisted = 0

    def __init__(self) -> None:
        super().__init__()
        self.time = 0.0
        self.lookout = Lookout(make_settings(), clock=lambda: self.time)
        self.watchers = {"eager": Watcher(), "seldom": Watcher()}
        self.seen: dict[str, Sight] = {}

    @precondition(lambda self: self.world is not None)
    @rule()
    def look_seldom(self) -> None:
        """The other one looks."""
        self._look(self._world, "seldom")

    @invariant()
    def watchers_see_the_ledger(self) -> None:
        """After each rule."""
        if self.world is not None:
            self._look(self.world, "eager")

    def _end(self, world: World) -> None:
        """And look once more."""
        super()._end(world)
        self._look(world, "eager")

    def _look(self, world: World, name: str) -> None:
        if not self.seen:
            timelines = self.lookout.timelines
            timelines.begin(world.engine.courses())
            world.engine.observe(timelines.note, with_tables=False, hear=timelines.hear)
        self.time += 1.0
        watcher, before = self.watchers[name], self.seen.get(name)
        sight = self.lookout.sight(world.engine, "ready")
        if sight is not before:
            watcher.apply_frame(self.lookout.frame(sight, before, world.engine.info))
            type(self).num_increments += before is not None
        self.seen[name] = sight
        watcher.check(world.engine.snapshot())
        self._check_places(world, watcher)
        self._check_slots(world, watcher)
        self._check_timelines(world)
        self._check_ends(world, watcher, before)
        type(self).num_rejections += bool(watcher.rejections)

    def _check_places(self, world: World, watcher: Watcher) -> None:
        """What a unit holds, asked for, is what the tables and the index say."""
        for unit, (group, state) in enumerate(watcher.holds()):
            view = world.engine.unit(unit)
            if view is None:
                assert state == "free"
                continue
            assert (view.group, view.hold.name.lower()) == (group, state)
            assert unit in view.units
            assert view.group is not None
            assert view.positions is not None
            start, stop = view.positions
            holders = [each.id for each in world.watch.unfinished if view.block in each.held.blocks()]
            assert list(view.owners) == holders
            for owner in holders:
                sequence = world.watch.sequence(owner)
                assert list(view.tokens) == sequence.tokens[start : min(stop, sequence.ledger.computed)]
                table = sequence.held.tables[view.group]
                assert table.blocks[start // world.shape.block_size - table.first] == view.block
            if not holders:
                content = [slot[0] for slot in world.runner.content(unit)]
                assert content == list(view.tokens)

    def _check_slots(self, world: World, watcher: Watcher) -> None:
        """So is what a slot holds, and a state that stands somewhere is that of the tokens before."""
        for slot, (_, state) in enumerate(map(hold_of, watcher.slots)):
            view = world.engine.slot(slot)
            assert ("free" if view is None else view.hold.name.lower()) == state
            if view is None:
                continue
            assert list(view.owners) == [each.id for each in world.watch.unfinished if slot in each.held.slots()]
            if view.positions is not None and view.positions[1]:
                assert len(world.runner.states[slot]) == view.positions[1]

    def _check_ends(self, world: World, watcher: Watcher, before: Sight | None) -> None:
        """Who was listed and is gone from the ledger is told to have ended, and nobody else."""
        unfinished = {each.id for each in world.watch.unfinished}
        assert unfinished.isdisjoint(watcher.ended)
        if before is not None:
            assert {view.id for view in before.look.snapshot.sequences} - unfinished <= set(watcher.ended)
        type(self).num_unlisted += any(watcher.last["unlisted"].values())

    def _check_timelines(self, world: World) -> None:
        """What befell a sequence is what it remembers, it ends as its client is told, and ran in each of its steps."""
        timelines = {timeline.sequence: timeline for timeline in self.lookout.timelines._timelines.values()}
        for client in world.clients:
            ends = {delta.choice: delta.end for delta in client.deltas if delta.end is not None}
            for sequence in filter(lambda each: each.id in timelines, client.sequences):
                timeline, events = timelines[sequence.id], [moment.event for moment in sequence.moments]
                assert list(timeline.moments) == sequence.moments
                assert events.count(Event.PREEMPTED) == sequence.epoch
                assert [each for each in events if each is Event.ENDED] == [Event.ENDED] * (timeline.end is not None)
                assert (timeline.end is not None) == (sequence.state is State.FINISHED)
                if timeline.end is not None and sequence.choice in ends:
                    assert timeline.end.reason == ends[sequence.choice].reason.value
                assert all(ran_at(sequence.moments, row.at) for row in timeline.rows)
                type(self).num_preempted += Event.PREEMPTED in events


def ran_at(moments: list[Moment], at: float) -> bool:
    """Whether a sequence had begun to run at a moment, and had not stopped before."""
    begun = [each.at for each in moments if each.event in (Event.ADMITTED, Event.RESUMED) and each.at <= at]
    stopped = [each.at for each in moments if each.event in (Event.PREEMPTED, Event.PAUSED, Event.ENDED)]
    return bool(begun) and all(not begun[-1] < each < at for each in stopped)


def test_increments_lead_to_what_the_ledger_tells(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine.view, "MAX_RUNNING", 3)  # so that sequences leave what is listed, and come back
    monkeypatch.setattr(engine.view, "MAX_OTHERS", 2)

    run_state_machine_as_test(WatchedMachine, settings=settings(max_examples=NUM_LIVES, stateful_step_count=NUM_RULES))

    assert WatchedMachine.num_increments > NUM_LIVES, "most looks tell what has changed"
    assert WatchedMachine.num_rejections, "some drafts fall"
    assert WatchedMachine.num_preempted, "some lose their cache"
    assert WatchedMachine.num_unlisted, "some are not listed"
