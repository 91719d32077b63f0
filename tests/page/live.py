"""The page over a real server: it agrees with /ledger, sees guesses fall, and comes back when a connection breaks."""

import random
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from server.listen import bind
from tests.http.processes import ServerProcess
from tests.page.looking import Looks, until
from tests.page.proxy import proxied

if TYPE_CHECKING:
    from playwright.sync_api import Page

SCRIPTED = "tests.http.scripted"
LIVE = "document.querySelector('#link').dataset.state === 'live'"
WAITING = "document.querySelector('#link').dataset.state === 'waiting'"
# A page may be back before a busy machine looks again, so it counts itself.
COUNT_BREAKS = """() => {
  const link = document.querySelector("#link");
  const told = document.body.dataset;
  told.breaks = "0";
  new MutationObserver(() => {
    if (link.dataset.state === "waiting") told.breaks = String(Number(told.breaks) + 1);
  }).observe(link, { attributeFilter: ["data-state"] });
}"""
NUM_SAMPLES = 12
NUM_BLOCKS_A_SAMPLE = 25
MARKS = ("planned", "computed", "accepted", "published")


@pytest.fixture
def hold(tmp_path: Path) -> Path:
    """While this file is there the scripted model ends no step."""
    path = tmp_path / "hold"
    path.touch()
    return path


@contextmanager
def asked(client: httpx.Client, *prompts: str, max_tokens: int = 100) -> Iterator[None]:
    """These run meanwhile, each a stream that is read."""

    def read(prompt: str) -> None:
        body = {"model": "scripted", "prompt": prompt, "max_tokens": max_tokens, "stream": True}
        with client.stream("POST", "/v1/completions", json=body) as answer:
            for _ in answer.iter_lines():
                if ended.is_set():
                    return

    ended = threading.Event()
    threads = [threading.Thread(target=read, args=(prompt,)) for prompt in prompts]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        ended.set()
        for thread in threads:
            thread.join()


def held_ledger(client: httpx.Client) -> dict[str, Any]:
    """The ledger once it stands still."""
    before, ledger = None, client.get("/ledger").json()
    while before is None or _still(before) != _still(ledger):
        time.sleep(0.1)
        before, ledger = ledger, client.get("/ledger").json()
    return dict(ledger)


def _still(ledger: dict[str, Any]) -> object:
    sequences = [{name: value for name, value in one.items() if name != "age_seconds"} for one in ledger["sequences"]]
    return ledger["steps"], ledger["pool"], sequences


def cards(page: "Page") -> dict[str, list[int]]:
    """The four numbers of each card, by the request's id."""
    told: dict[str, list[int]] = page.evaluate(
        "Object.fromEntries([...document.querySelectorAll('#running > li')].map((card) =>"
        " [card.querySelector('.id').title, [...card.querySelectorAll('.number')].map((one) =>"
        " Number(one.textContent.replaceAll(',', '')))]))"
    )
    return told


def block_states(page: "Page") -> dict[str, int]:
    """How many blocks the page says there are of each state."""
    numbers = [text.split(" ")[0].replace(",", "") for text in page.locator("#cache-states dd").all_inner_texts()]
    return dict(zip(("free", "allocated", "shared", "cached"), map(int, numbers), strict=True))


def told_of_blocks(page: "Page", blocks: list[int], capacity: int) -> list[str]:
    """What the page says of each block as the pointer stands on it."""
    corners = page.evaluate(
        "async ([blocks, count]) => { const m = await import('/page/layout.js');"
        " const map = document.querySelector('#map');"
        " map.scrollIntoView(); const box = map.getBoundingClientRect();"
        " const grid = m.gridOf(count, map.parentElement.clientWidth, 340);"
        " return blocks.map((block) => m.cornerOf(grid, block)).map(({x, y}) => [box.x + x + 2, box.y + y + 2]); }",
        [blocks, capacity],
    )
    told = []
    for x, y in corners:
        page.mouse.move(x, y)
        told.append(page.inner_text("#map-told"))
    page.mouse.move(0, 0)
    return told


def expected_of_blocks(page: "Page", ledger: dict[str, Any], blocks: list[int]) -> list[list[str]]:
    """What must be said of each: who has which positions in it."""
    letters: dict[str, str] = page.evaluate(
        "Object.fromEntries([...document.querySelectorAll('#running > li')].map((card) =>"
        " [card.querySelector('.id').title, card.querySelector('.badge').textContent]))"
    )
    size = ledger["pool"]["block_size"]
    said: dict[int, list[str]] = {}
    for one in ledger["sequences"]:
        for number, block in enumerate(one["blocks"]):
            first = number * size
            computed = max(0, min(size, one["computed"] - first))
            how = "all computed" if computed == size else f"{computed} of them computed"
            name = letters[one["request_id"]]
            positions = f"{first:,} to {first + size - 1:,}"
            said.setdefault(block["id"], []).append(f"{name} has its positions {positions} here, {how}")
    return [sorted(said.get(block, [])) for block in blocks]


def test_the_map_and_the_marks_agree_with_the_ledger_at_every_moment(looks: Looks, hold: Path) -> None:
    draw = random.Random(1)  # which blocks are looked at
    beginning = "the tide comes in " * 5
    prompts = [beginning + name for name in ("one", "two", "three", "four")]
    flags = ("--hold", str(hold), "--free-steps", "3", "--max-draft-tokens", "8")
    with ServerProcess(SCRIPTED, *flags) as server, server.ready_client() as client:
        page = looks.open(str(client.base_url))
        with asked(client, *prompts, max_tokens=20_000):
            try:
                shared = sample(page, client, hold, draw)
            finally:
                hold.unlink(missing_ok=True)

    assert shared > 0, "nothing was shared: the samples show too little"


def sample(page: "Page", client: httpx.Client, hold: Path, draw: random.Random) -> int:
    """Let it run and stop it again and again, and compare: how many shared blocks were looked at."""
    shared = 0
    while len(client.get("/ledger").json()["sequences"]) < 4:
        time.sleep(0.05)
    for _ in range(NUM_SAMPLES):
        hold.unlink()
        time.sleep(0.05)
        hold.touch()
        ledger = held_ledger(client)
        owned = sorted({block["id"] for one in ledger["sequences"] for block in one["blocks"]})
        blocks = [*draw.sample(owned, min(len(owned), NUM_BLOCKS_A_SAMPLE)), owned[0], owned[-1], owned[-1] + 1]
        marks = {one["request_id"]: [one[mark] for mark in MARKS] for one in ledger["sequences"]}
        agree(page, marks)
        assert block_states(page) == {
            state: ledger["pool"][state] for state in ("free", "allocated", "shared", "cached")
        }
        told = told_of_blocks(page, blocks, ledger["pool"]["capacity"])
        expected = expected_of_blocks(page, ledger, blocks)
        for block, words, parts in zip(blocks, told, expected, strict=True):
            said = words.removeprefix(f"Block {block:,}: ").partition("shared by ")
            named = (said[2].partition(": ")[2] or said[0]).rstrip(".").split("; ") if parts else []
            assert sorted(named) == parts, (block, words)
            shared += len(parts) > 1
    return shared


def agree(page: "Page", marks: dict[str, list[int]]) -> None:
    """Wait until the page shows these marks: it must, since they stand still."""
    give_up = time.monotonic() + 30
    while cards(page) != marks and time.monotonic() < give_up:
        page.wait_for_timeout(50)
    assert cards(page) == marks


def ask(page: "Page", question: str, *, prediction: str = "") -> str:
    """Ask for the likeliest answer: the answer."""
    if not page.locator("#temperature").is_visible():
        page.click("#ask summary")
    page.fill("#temperature", "0")
    page.fill("#max-tokens", "40")
    page.fill("#prediction", prediction)
    page.click("#chat-new")
    page.fill("#question", question)
    page.click("#send")
    page.wait_for_selector("article[data-state=ended]")
    return page.inner_text(".answer")


def test_a_guess_stands_and_falls_in_the_answer_the_list_and_the_steps(looks: Looks, served: httpx.Client) -> None:
    page = looks.open(str(served.base_url))
    answer = ask(page, "What is a tide?")
    half = answer[: len(answer) // 2]

    again = ask(page, "What is a tide?", prediction=half + " zebra zebra zebra zebra zebra zebra zebra zebra")
    page.wait_for_selector(".piece.drafted")
    page.wait_for_selector("#fallen li")
    drafted = "".join(page.locator(".piece.drafted").all_inner_texts())
    took = page.locator(".took > div").all_inner_texts()
    marked = page.locator("[data-fell], [data-behind]").count()
    fallen = page.locator("#fallen li").all_inner_texts()
    page.click("article .took button")
    page.wait_for_selector("#steps tbody tr.fell")
    steps = page.locator("#steps tbody tr.fell").all_inner_texts()
    page.keyboard.press("Escape")

    assert again == answer
    assert len(drafted) > len(half) // 2
    assert any("from the prediction" in text for text in fallen)
    assert any("fell" in text for text in steps)
    assert int(took[1].split()[2]) == page.locator(".piece.drafted").count()
    assert marked > 0
    assert " 0 cached" not in took[0].replace("\n", " ")


def marks(page: "Page") -> list[list[object]]:
    """Of each token of the answer whether it is shown as guessed, and how many guesses as fallen at its place."""
    found: list[list[object]] = page.evaluate(
        "[...document.querySelectorAll('.piece')].map((one) =>"
        " [one.classList.contains('drafted'), Number(one.dataset.fell ?? 0)])"
    )
    return found


def expected_marks(client: httpx.Client, id: str) -> list[list[object]]:
    """The same by the steps that the server tells of."""
    [story] = client.get(f"/ledger/{id}/steps").json()["sequences"]
    told: list[list[object]] = []
    for step in story["steps"]:
        fell = step["drafted"] - step["kept"]
        told += [[index < step["kept"], fell if index == step["kept"] else 0] for index in range(step["tokens"])]
    return told


def test_two_answers_at_once_are_marked_while_they_come_as_the_steps_have_it(
    looks: Looks, served: httpx.Client
) -> None:
    pages = [looks.open(str(served.base_url)) for _ in range(2)]
    guess = ask(pages[0], "What is a tide?")
    pages[0].click("#chat-new")
    for page, prediction in zip(pages, (guess, guess.replace(" the ", " a zebra ")), strict=True):
        if not page.locator("#temperature").is_visible():
            page.click("#ask summary")
        page.fill("#temperature", "0")
        page.fill("#max-tokens", "120")
        page.fill("#prediction", prediction)
        page.fill("#question", "What is a tide?")
        page.click("#send")
    marked_early = 0
    while any(page.locator("article[data-state=ended]").count() == 0 for page in pages):
        for page in pages:
            shown, id = marks(page), page.evaluate("document.querySelector('article').dataset.request ?? null")
            if id is None:
                continue
            told = expected_marks(served, id)
            assert all(one in ([False, 0], told[number]) for number, one in enumerate(shown))
            marked_early += any(drafted for drafted, _ in shown)
    for page in pages:
        told = expected_marks(served, str(page.get_attribute("article", "data-request")))
        give_up = time.monotonic() + 30
        while marks(page) != told[: len(marks(page))] and time.monotonic() < give_up:
            page.wait_for_timeout(50)

        assert marks(page) == told[: len(marks(page))]
        assert len(marks(page)) >= len(told) - 1, "all but the token that ends it"
    assert marked_early > 0
    assert any(fell for page in pages for _, fell in marks(page))


def test_log_probabilities_come_on_demand_alone(looks: Looks, served: httpx.Client) -> None:
    page = looks.open(str(served.base_url))
    ask(page, "Say hello.")
    page.focus(".answer")
    plain = page.locator(".alternatives li").count()
    page.check("#alternatives")
    ask(page, "Say hello.")
    page.focus(".answer")
    listed = page.locator(".alternatives li").count()

    assert (plain, listed) == (0, 5)


def test_a_stopped_answer_ends_its_request_and_keeps_what_came(looks: Looks, hold: Path) -> None:
    flags = ("--hold", str(hold), "--free-steps", "5", "--server-resume-seconds", "0")
    with ServerProcess(SCRIPTED, *flags) as server, server.ready_client() as client:
        page = looks.open(str(client.base_url))
        page.fill("#question", "hi")
        page.click("#send")
        until(page, "document.querySelectorAll('.piece').length > 3")
        page.wait_for_selector("#running > li")
        page.click("#stop")
        page.wait_for_selector("#send:visible")
        hold.unlink()
        until(page, "document.querySelectorAll('#running > li').length === 0")

        assert page.inner_text(".time") == "stopped"
        page.click("#ended summary")
        page.click("#ended button")
        page.wait_for_selector('#steps tr[data-event="ended"]')
        befell = page.locator("#steps tr.event").all_inner_texts()

    assert [text.split("\t")[-1] for text in befell] == [
        "came into the queue",
        "admitted, nothing found in the cache",
        "ended: abort",
    ]


@pytest.mark.parametrize("shows", [False, True])
def test_the_texts_of_others_are_shown_if_the_operator_lets_them_be_and_else_never(
    looks: Looks, hold: Path, *, shows: bool
) -> None:
    asked_for: list[str] = []
    flags = ("--hold", str(hold), "--free-steps", "8", *(("--show-text",) if shows else ()))
    with ServerProcess(SCRIPTED, *flags) as server, server.ready_client() as client:
        page = looks.open(str(client.base_url))
        page.on("request", lambda one: asked_for.append(one.url))
        with asked(client, "zanzibar harbour " * 4, max_tokens=20):
            [one] = written(client)
            agree(page, {one["request_id"]: [one[mark] for mark in MARKS]})
            told = [told_of_blocks(page, [one["blocks"][0]["id"]], 4096)[0]]
            page.click('#running button[aria-label^="Steps of"]')
            page.wait_for_selector("#steps tbody tr:not(.event)")
            chosen = page.locator("#steps tbody q").all_inner_texts()
            page.keyboard.press("Escape")
            page.focus("#map")
            page.keyboard.press("Home")
            for _ in range(one["blocks"][0]["id"]):
                page.keyboard.press("ArrowRight")
            if shows:
                until(page, "document.querySelector('#map-told').textContent.includes('“zanzibar harbour')")
            page.wait_for_timeout(500)  # longer than the page waits before it asks; no machine is too slow for it
            told.append(page.inner_text("#map-told"))
            asked_while_owned = [url for url in asked_for if "/units/" in url]
            hold.unlink()
            until(page, "document.querySelectorAll('#running > li').length === 0")
        page.keyboard.press("ArrowRight")
        page.keyboard.press("ArrowLeft")
        until(page, "document.querySelector('#map-told').textContent.includes('It holds positions 0 to 15')")
        told.append(page.inner_text("#map-told"))
        whole = page.content()

    assert ["zanzibar" in text for text in told] == [False, shows, shows], told
    assert ("zanzibar" in whole) == shows
    assert ("".join(chosen) in "abcdefghijklmnopqrstuvwxyz" * 2 and chosen != []) == shows
    assert shows or asked_while_owned == []


def written(client: httpx.Client) -> list[dict[str, Any]]:
    """The sequences once they stand still, with some of their answers written."""
    while not (found := held_ledger(client)["sequences"]) or any(one["output_tokens"] < 3 for one in found):
        time.sleep(0.05)
    return list(found)


def test_a_server_that_comes_back_is_found_again(looks: Looks) -> None:
    with bind("127.0.0.1", 0) as taken:
        port = str(taken.getsockname()[1])
    with ServerProcess(SCRIPTED, "--port", port) as server, server.ready_client() as client:
        page = looks.open(str(client.base_url))
        server.send(signal.SIGKILL)
        server.exit_code()
        until(page, WAITING)
        told = page.inner_text("#link")
        assert page.evaluate("document.body.classList.contains('stale')")
    with ServerProcess(SCRIPTED, "--port", port) as server, server.ready_client() as client:
        until(page, LIVE)
        with asked(client, "hi", max_tokens=20_000):
            until(
                page, "document.querySelector('#ended li') !== null || document.querySelector('#running > li') !== null"
            )

    assert "Trying again in" in told


def test_a_server_that_ends_says_so(looks: Looks, hold: Path) -> None:
    flags = ("--hold", str(hold), "--server-drain-seconds", "0")
    with ServerProcess(SCRIPTED, *flags) as server, server.ready_client() as client:
        page = looks.open(str(client.base_url))
        server.send(signal.SIGTERM)
        until(page, WAITING)
        until(page, "/shutting down|broke|ended/.test(document.querySelector('#link').textContent)")


def test_a_connection_that_a_proxy_cuts_heals(looks: Looks) -> None:
    with ServerProcess(SCRIPTED) as server, server.ready_client() as client, proxied(str(client.base_url)) as proxy:
        page = looks.open(proxy.url)
        page.evaluate(COUNT_BREAKS)
        for number in range(3):
            assert proxy.cut() > 0
            until(page, f"Number(document.body.dataset.breaks) > {number}")
            until(page, LIVE)
        with asked(client, "hi", max_tokens=20_000):  # so long that no look misses it
            until(page, "document.querySelector('#ended li, #running > li') !== null")


def test_a_hidden_tab_watches_no_more(looks: Looks) -> None:
    hide = "Object.defineProperty(document, 'hidden', {value: %s, configurable: true});"
    hide += "document.dispatchEvent(new Event('visibilitychange'));"
    with ServerProcess(SCRIPTED) as server, server.ready_client() as client:
        page = looks.open(str(client.base_url))
        page.evaluate(hide % "true")
        page.wait_for_selector('#link[data-state="hidden"]')
        with ExitStack() as others:
            taken = 0
            while (status := others.enter_context(client.stream("GET", "/ledger/events")).status_code) == 200:
                taken += 1
            page.evaluate(hide % "false")
            until(page, WAITING)
            told = page.inner_text("#link")
        until(page, LIVE)

    assert status == 503
    assert taken == 16, "all places were free while the tab was hidden"
    assert "16" in told


def test_a_key_is_asked_for_and_a_wrong_one_is_said_to_be_wrong(looks: Looks) -> None:
    with ServerProcess(SCRIPTED, "--api-key", "right") as server, server.ready_client() as client:
        page = looks.open(str(client.base_url), live=False)
        page.wait_for_selector("#key:visible")
        first = page.inner_text("#key-why")
        page.keyboard.type("wrong")
        page.keyboard.press("Enter")
        until(page, f"document.querySelector('#key-why').textContent !== {first!r}")
        second = page.inner_text("#key-why")
        page.keyboard.type("right")
        page.keyboard.press("Enter")
        until(page, LIVE)
        hidden = page.locator("#key").is_hidden()
        page.reload()
        until(page, LIVE)
        page.fill("#question", "hi")
        page.click("#send")
        page.wait_for_selector("article[data-state=ended]")
        kept = page.evaluate("[localStorage.length, document.cookie, document.body.innerText.includes('right')]")

    assert (first, second) == ("This server asks for a key.", "This server does not know that key. Try another.")
    assert hidden
    assert kept == [0, "", False]
