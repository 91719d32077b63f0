from rich.console import Console

from server.top.story import Frame, Story
from server.top.view import View
from tests.server.top.sights import sight


def frame(steps: int) -> Frame:
    told = Story("http://here")
    told.add(sight(whole=True, server=f"state-{steps}"), 0.0)
    return told.frame(0.0)


def text(view: View, shown: Frame) -> str:
    console = Console(width=100)
    with console.capture() as captured:
        console.print(view.draw(shown, width=100, height=30))
    return captured.get()


def test_other_keys_change_nothing_and_q_leaves() -> None:
    view = View()

    assert view.press("")
    assert view.press("xyz\x1b[A")
    assert not view.press("xq")


def test_a_paused_view_keeps_the_frame_of_that_moment() -> None:
    view = View()
    text(view, frame(1))
    view.press("p")

    paused = text(view, frame(2))
    view.press("p")

    assert "state-1" in paused
    assert "paused; p goes on" in paused
    assert "state-2" in text(view, frame(2))


def test_a_view_that_is_paused_before_it_drew_anything_draws_the_first() -> None:
    view = View()
    view.press("p")

    assert "state-1" in text(view, frame(1))


def test_s_goes_through_the_orders() -> None:
    view = View()

    told = [text(view, frame(1)).rpartition("sorts (by ")[2].partition(")")[0] for _ in range(4) if view.press("s")]

    assert told == ["length", "state", "age", "length"]
