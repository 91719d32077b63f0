import asyncio

import pytest

from benchmarks.watching.served import forget_at_once
from server import service
from server.lookout import Lookout
from tests.fakes import FakeEngine, make_settings

pytestmark = pytest.mark.anyio


async def test_with_its_last_watcher_the_server_forgets_to_note_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "Lookout", Lookout)  # put back in the end
    forget_at_once()
    engine, lookout = FakeEngine(), service.Service(make_settings()).lookout

    with lookout.watching(engine):
        num_watched = len(engine.observers)
    await asyncio.sleep(0.001)  # timers end in order

    assert num_watched == 1
    assert engine.observers == []
