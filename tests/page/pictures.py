"""Pictures of the page over a server that works: what docs/images holds."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal

import httpx
import pytest

from tests.http.processes import ROOT
from tests.page.looking import Looks, until

if TYPE_CHECKING:
    from playwright.sync_api import Page

FOLDER = ROOT / "docs" / "images"
MOST_BYTES = 300 * 1024
BEGINNING = "You are a harbour master who tells sailors of the tide in plain words, with examples from real ports. " * 3
GUESS = "A tide is the regular rise and fall of the sea."
NUM_CLIENTS = 5


@contextmanager
def load(client: httpx.Client) -> Iterator[None]:
    """Chats with one beginning, one after the other, from several clients."""

    def ask(number: int) -> None:
        while not ended.is_set():
            system = {"role": "system", "content": BEGINNING}
            user = {"role": "user", "content": f"What should I know of the tide at pier {number}?"}
            body: dict[str, object] = {
                "messages": [system, user],
                "max_tokens": 120 + 40 * number,
                "seed": number,
                "ignore_eos": True,
            }
            with client.stream("POST", "/v1/chat/completions", json=body | {"model": model, "stream": True}) as answer:
                for _ in answer.iter_lines():
                    if ended.is_set():
                        return

    model = client.get("/v1/models").json()["data"][0]["id"]
    ended = threading.Event()
    threads = [threading.Thread(target=ask, args=(number,)) for number in range(NUM_CLIENTS)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        ended.set()
        for thread in threads:
            thread.join()


def converse(page: "Page") -> None:
    """Ask with a guess that is partly right, and look at one token."""
    page.click("#ask summary")
    page.fill("#temperature", "0")
    page.fill("#max-tokens", "48")
    page.fill("#prediction", GUESS)
    page.check("#alternatives")
    page.click("#ask summary")
    page.fill("#question", "What is a tide? Answer in one sentence.")
    page.click("#send")
    page.wait_for_selector("article[data-state=ended]")
    page.wait_for_selector(".piece.drafted")
    page.focus(".answer")
    for _ in range(4):
        page.keyboard.press("ArrowRight")


@pytest.mark.parametrize(
    ("name", "width", "height", "scheme"),
    [("light", 1280, 1300, "light"), ("dark", 1280, 1300, "dark"), ("phone", 360, 1500, "light")],
)
def test_a_picture_is_taken(
    looks: Looks, served: httpx.Client, name: str, width: int, height: int, scheme: Literal["light", "dark"]
) -> None:
    with load(served):
        page = looks.open(str(served.base_url), width=width, height=height, scheme=scheme)
        page.wait_for_timeout(8000)  # for lines to show something: nothing depends on it
        converse(page)
        until(page, f"document.querySelectorAll('#running > li').length >= {NUM_CLIENTS - 1}")
        until(page, "document.querySelectorAll('#fallen li').length > 0")
        page.evaluate("scrollTo(0, 0)")
        path = FOLDER / f"page-{name}.png"
        page.screenshot(path=path)

    assert path.stat().st_size < MOST_BYTES


def test_a_picture_of_steps_is_taken(looks: Looks, served: httpx.Client) -> None:
    page = looks.open(str(served.base_url), width=1100, height=700)
    converse(page)
    page.click("article .took button")
    page.wait_for_selector("#steps tbody tr.fell")
    path = FOLDER / "page-steps.png"
    page.screenshot(path=path)

    assert path.stat().st_size < MOST_BYTES
