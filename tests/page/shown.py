"""The page over made-up data: what it shows, by keyboard, on a phone, in both schemes, and what it never does."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal

import pytest

from tests.page.looking import Looks, until
from tests.page.standin import Json, Script, sequence, snapshot, standing_in

if TYPE_CHECKING:
    from playwright.sync_api import Page

MARKUP = "<img src=x onerror=alert(1)>"
CODES = "1112211111333" + "0" * 27
SCHEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")


def story(id: str) -> Json:
    steps = [
        {"step": 1, "time": 1.0, "chunk": [0, 24], "planned": 24, "computed": 24, "accepted": 25, "published": 25},
        {"step": 2, "time": 1.1, "chunk": [24, 29], "planned": 29, "computed": 27, "accepted": 28, "published": 28},
    ]
    steps[0] |= {"tokens": 1, "drafted": 0, "kept": 0, "source": ""}
    steps[1] |= {"tokens": 3, "drafted": 4, "kept": 2, "source": "prediction"}
    return {
        "sequence": f"{id}/0",
        "complete": True,
        "ended": "stop",
        "prompt_tokens": 24,
        "cached_tokens": 16,
        "steps": steps,
        "events": [
            {"number": 1, "time": 0.2, "event": "queued"},
            {"number": 2, "time": 0.9, "event": "admitted", "cached_tokens": 16},
            {"number": 3, "time": 1.02, "event": "paused"},
            {"number": 4, "time": 1.04, "event": "resumed"},
            {"number": 5, "time": 1.1, "event": "ended", "reason": "stop"},
        ],
    }


def ended_by(words: str) -> Json:
    told = story(words)
    told["events"][-1] |= {"reason": words, "error": words}
    return told | {"ended": words}


def scored(token: str, index: int, logprob: float = -0.5) -> Json:
    top = [{"token": token, "logprob": logprob}, {"token": MARKUP, "logprob": -1.5}]
    return {"token": token, "logprob": logprob, "bytes": list(token.encode()), "index": index, "top_logprobs": top}


def chunk(token: str, index: int) -> Json:
    """A token that is number `index` of all that the model wrote."""
    choice = {"delta": {"content": token}, "logprobs": {"content": [scored(token, index)]}, "token_ids": [index]}
    return {"id": "chatcmpl-1", "choices": [choice]}


def thought(text: str, index: int) -> Json:
    """A token of reasoning."""
    return {"id": "chatcmpl-1", "choices": [{"delta": {"reasoning_content": text}, "token_ids": [index]}]}


def chunks(*tokens: str) -> list[Json]:
    made = [chunk(token, index) for index, token in enumerate(tokens)]
    made.insert(0, {"id": "chatcmpl-1", "choices": [{"delta": {"content": ""}}], "prompt_token_ids": [0] * 24})
    usage = {
        "prompt_tokens": 24,
        "completion_tokens": len(tokens),
        "prompt_tokens_details": {"cached_tokens": 16},
        "completion_tokens_details": {"accepted_prediction_tokens": 2, "rejected_prediction_tokens": 2},
    }
    return [*made, {"id": "chatcmpl-1", "choices": [], "usage": usage}]


def script() -> Script:
    running = [
        sequence("chatcmpl-one/0", [3, 4, 0, 1, 2]),
        sequence("chatcmpl-two/0", [3, 4, 5, 6, 7, 8, 9], computed=100, planned=108, max_length=400),
        sequence("chatcmpl-three/0", [], state="waiting", computed=0),
        sequence("chatcmpl-four/0", [], state="parked", computed=0),
    ]
    first = snapshot(*running, codes=CODES)
    first["rejections"] = [rejection("chatcmpl-two/0")]
    return Script(
        [first],
        chunks=chunks("A", " tide", " is", MARKUP),
        stories={"chatcmpl-1": [story("chatcmpl-1")], "chatcmpl-one": [story("chatcmpl-one")]},
        units={"10": {"state": "cached", "positions": [32, 48]}},
    )


def rejection(id: str, number: int = 1) -> Json:
    return {
        "number": number,
        "sequence": id,
        "step": 9,
        "position": 77,
        "drafted": 8,
        "kept": 3,
        "source": "prompt_lookup",
    }


@contextmanager
def shown(looks: Looks, script: Script, **how: object) -> Iterator["Page"]:
    with standing_in(script) as url:
        yield looks.open(url, **how)  # type: ignore[arg-type]  # passed on as they are
        looks.close()


def cards(page: "Page") -> dict[str, list[str]]:
    """Each card's name and the numbers at its bars."""
    found = page.locator("#running > li").all()
    return {one.locator(".badge").inner_text(): one.locator(".number").all_inner_texts() for one in found}


def test_requests_the_queue_the_cache_and_what_fell_are_shown(looks: Looks) -> None:
    with shown(looks, script()) as page:
        assert cards(page) == {"A": ["41", "40", "41", "40"], "B": ["108", "100", "101", "100"]}
        assert "C" in page.inner_text("#queue")
        assert "D" in page.inner_text("#parked")
        assert page.locator("#cache-states dd").all_inner_texts() == ["27 · 68 %", "8 · 20 %", "2 · 5.0 %", "3 · 7.5 %"]
        assert "5 of 8 fell at position 77" in page.inner_text("#fallen")


def test_bars_are_as_long_as_their_marks(looks: Looks) -> None:
    with shown(looks, script()) as page:
        lengths = page.evaluate(
            "[...document.querySelectorAll('#running .fill')].map((one) =>"
            " 1 + Number(one.style.transform.slice('translateX('.length, -2)) / 100)"
        )

    assert lengths == pytest.approx(
        [value / 64 for value in (41, 40, 41, 40)] + [v / 128 for v in (108, 100, 101, 100)]
    )


def test_blocks_that_are_free_owned_shared_and_kept_are_painted_apart(looks: Looks) -> None:
    with shown(looks, script()) as page:
        corners = {block: [pixels(page, "#map", 28 * block + at, at) for at in (3, 12, 21)] for block in (0, 3, 10, 13)}

    one, shared, kept, free = corners.values()
    nothing = [0, 0, 0, 0]
    assert one[0] == one[2] != nothing
    assert len({tuple(part) for part in (*shared, nothing)}) == 4
    assert kept == [nothing] * 3
    assert free[::2] == [nothing] * 2 != [free[1]] * 2


def test_all_that_is_asked_for_is_asked_of_the_server_that_sent_the_page(looks: Looks) -> None:
    with shown(looks, script()) as page:
        page.evaluate("sessionStorage.setItem('tidemark-key', 'secret')")
        asked: list[tuple[str, str]] = []
        page.on("request", lambda one: asked.append((one.url, one.headers.get("authorization", ""))))
        page.reload()
        page.wait_for_selector('#link[data-state="live"]')
        ask(page)
        page.wait_for_selector(".piece.drafted")
        page.hover("#map", position={"x": 10 * 28 + 5, "y": 5})
        until(page, "document.querySelector('#map-told').textContent.includes('positions 32 to 47')")
        own = page.evaluate("location.origin")

    assert {"/".join(url.split("/")[:3]) for url, _ in asked} - {"data:,"} == {own}
    keyed = {url.removeprefix(own).partition("?")[0] for url, key in asked if key == "Bearer secret"}
    assert keyed == {"/ledger/events", "/ledger/chatcmpl-1/steps", "/v1/chat/completions", "/ledger/units/10"}


def test_the_map_is_walked_by_keys_and_tells_each_block(looks: Looks) -> None:
    with shown(looks, script()) as page:
        page.focus("#map")
        told = [page.inner_text("#map-told")]
        for key in ["ArrowRight", *["ArrowRight"] * 2, "End", "Home"]:
            page.keyboard.press(key)
            told.append(page.inner_text("#map-told"))
        page.keyboard.press("Enter")
        page.wait_for_selector("#steps[open] tbody tr")

    assert told[0] == "Block 0: A has its positions 32 to 47 here, 8 of them computed."
    assert told[1].startswith("Block 1: A has its positions 48 to 63 here, 0 of them computed")
    assert told[3] == (
        "Block 3: shared by 2: A has its positions 0 to 15 here, all computed; "
        "B has its positions 0 to 15 here, all computed."
    )
    assert told[4] == "Block 39: free."
    assert told[5] == told[0]


def test_the_pointer_tells_what_a_kept_block_holds(looks: Looks) -> None:
    with shown(looks, script()) as page:
        page.hover("#map", position={"x": 10 * 28 + 5, "y": 5})
        until(page, "document.querySelector('#map-told').textContent.includes('positions 32 to 47')")


def test_every_control_is_reached_by_the_tab_key_and_shows_it(looks: Looks) -> None:
    with shown(looks, script()) as page:
        controls = page.evaluate(
            "[...document.querySelectorAll('a, button, input, textarea, summary, canvas')]"
            ".filter((one) => one.checkVisibility()).length"
        )
        reached = set()
        for _ in range(2 * controls):
            page.keyboard.press("Tab")
            name, outline = page.evaluate(
                "(() => { const one = document.activeElement; const all = [...document.querySelectorAll('*')];"
                " return [`${one.tagName} ${all.indexOf(one)}`, getComputedStyle(one).outlineStyle]; })()"
            )
            reached.add(name)
            assert name.startswith("BODY") or outline != "none", name

    assert len([name for name in reached if not name.startswith(("BODY", "OL", "DIV"))]) == controls


def test_what_a_request_went_through_is_told_step_by_step(looks: Looks) -> None:
    with shown(looks, script()) as page:
        page.click('#running button[aria-label="Steps of A"]')
        page.wait_for_selector("#steps tbody tr")
        rows = page.locator("#steps tbody tr").all_inner_texts()
        told = page.inner_text("#steps-told")
        ticks = page.locator("#steps-chart path.tick title").all_text_contents()
        legend = page.inner_text("#steps-chart figcaption")
        page.keyboard.press("Escape")

        assert not page.locator("#steps").is_visible()
    assert [row.split("\t")[:2] for row in rows] == [
        *(["", "0.00 s"], ["", "0.70 s"], ["1", "0.80 s"], ["", "0.82 s"]),
        *(["", "0.84 s"], ["2", "0.90 s"], ["", "0.90 s"]),
    ]
    assert "came into the queue" in rows[0]
    assert "2 guesses fell" in rows[5]
    assert "ended: stop" in rows[6]
    assert "2 of 4 guessed tokens stood; ended: stop." in told
    assert ticks == [
        "admitted, 16 positions found in the cache",
        "paused: its client does not read fast enough",
        "goes on",
        "ended: stop",
    ]
    assert all(name in legend for name in ("comes or goes on", "stops", "ends"))


def test_what_comes_later_is_added_once(looks: Looks) -> None:
    later = script()
    whole = story("chatcmpl-one")
    begun = whole | {"ended": None, "steps": whole["steps"][:1], "events": whole["events"][:2]}
    later.stories = {"chatcmpl-one": [begun | {"steps": [], "events": whole["events"][:1]}]}
    with shown(looks, later) as page:
        page.click('#running button[aria-label="Steps of A"]')
        page.wait_for_selector("#steps tbody tr")
        waits = page.inner_text("#steps-told")
        later.stories = {"chatcmpl-one": [begun]}
        until(page, "document.querySelectorAll('#steps tbody tr').length === 3")
        runs = page.inner_text("#steps-told")
        later.stories = {"chatcmpl-one": [whole | {"steps": whole["steps"][1:]}]}
        until(page, "document.querySelectorAll('#steps tbody tr').length === 7")
        rows = page.locator("#steps tbody tr").all_inner_texts()

    assert waits.endswith("waiting.")
    assert runs.endswith("running.")
    assert [row.split("\t")[0] for row in rows] == ["", "", "1", "", "", "2", ""]


def test_those_that_are_not_listed_are_counted(looks: Looks) -> None:
    many = script()
    many.snapshots[0]["unlisted"] = {"running": 300, "waiting": 4936, "paused": 4, "parked": 2}
    with shown(looks, many) as page:
        lists = [page.locator(f"#{name} li.more").all_inner_texts() for name in ("queue", "parked")]
        running = page.inner_text("#running-more")
        page.focus("#map")
        page.keyboard.press("End")
        for _ in range(36):
            page.keyboard.press("ArrowLeft")
        shared = page.inner_text("#map-told")

    assert lists == [["and 4,936 more"], ["and 2 more"]]
    assert running == "and 304 more"
    assert shared.startswith("Block 3: shared by at least 2: A has")


def test_who_is_gone_has_ended_only_where_that_is_known(looks: Looks) -> None:
    going = script()
    [one, two, *others] = going.snapshots[0]["sequences"]
    more = {"running": 0, "waiting": 1, "paused": 0, "parked": 0}
    ended = {"number": 1, "sequence": one["id"], "time": 11.0, "reason": "error", "error": "slow_reader"}
    changes: Json = {"whole": False, "units": {}, "rejections": []}
    going.snapshots.append(going.snapshots[0] | changes | {"sequences": others, "unlisted": more, "ended": [ended]})
    with shown(looks, going) as page:
        until(page, "document.querySelectorAll('#running > li').length === 0")
        page.click("#ended summary")
        first = page.locator("#ended li").all_inner_texts()
        going.snapshots.append(going.snapshots[1] | {"sequences": [two, *others], "ended": []})
        until(page, "document.querySelectorAll('#running > li').length === 1")
        none = going.snapshots[0]["unlisted"]
        going.snapshots.append(going.snapshots[2] | {"sequences": others, "unlisted": none})
        until(page, "document.querySelectorAll('#ended li').length === 2")

    assert len(first) == 1, "the other one may be among those that are not listed"
    assert "ended: error (slow_reader)" in first[0]


def test_steps_that_are_not_kept_are_said_so(looks: Looks) -> None:
    with shown(looks, script()) as page:
        page.click('#running button[aria-label="Steps of B"]')
        until(page, "document.querySelector('#steps-told').textContent.includes('not kept')")


def ask(page: "Page", question: str = "What is a tide?") -> None:
    page.fill("#question", question)
    page.keyboard.press("Enter")
    page.wait_for_selector("article[data-state=ended]")


def test_an_answers_tokens_tell_what_was_guessed_and_what_else_there_could_have_been(looks: Looks) -> None:
    with shown(looks, script()) as page:
        ask(page)
        page.wait_for_selector(".piece.drafted")
        drafted = page.locator(".answer .piece.drafted").all_inner_texts()
        page.focus(".answer")
        page.keyboard.press("ArrowRight")
        token = page.inner_text(".token")
        fallen = page.locator("[data-fell='2']").all_inner_texts()
        took = lines(page)

    assert drafted == [" tide", " is"]
    assert "␣tide token 2, 60.7 % (log -0.500); guessed from the prediction, and stood in step 2, position 25" in token
    assert "22.3 %" in token
    assert fallen == [MARKUP]
    assert took[:2] == ["Prompt 24 16 cached 8 computed", "Answer 4 2 guessed 2 computed 2 fell"]
    assert took[2].startswith("Time first text ")


def lines(page: "Page") -> list[str]:
    """What an answer took, line by line."""
    return [" ".join(text.split()) for text in page.locator(".took > div").all_inner_texts()]


def marked(page: "Page") -> list[list[str]]:
    """Each token of the answer with the marks that it has."""
    found: list[list[str]] = page.evaluate(
        "[...document.querySelectorAll('.piece')].map((one) => [one.textContent,"
        " one.classList.contains('drafted') ? 'guessed' : '', one.dataset.fell ?? '', one.dataset.behind ?? ''])"
    )
    return found


def marked_as(page: "Page", *expected: list[str]) -> None:
    """Wait until the tokens have these marks, which must come."""
    give_up = time.monotonic() + 30
    while marked(page) != list(expected) and time.monotonic() < give_up:
        page.wait_for_timeout(20)
    assert marked(page) == list(expected)


def move_on(script: Script) -> None:
    """The server's next snapshot."""
    script.snapshots.append(script.snapshots[-1] | {"whole": False, "units": {}, "rejections": []})


def begun(script: Script, *chunks: Json) -> Script:
    """An answer of which these chunks have come, and no step is told."""
    script.open, script.chunks = True, list(chunks)
    script.stories = {}
    return script


def send(page: "Page") -> None:
    page.fill("#question", "hi")
    page.keyboard.press("Enter")


def test_tokens_are_marked_while_the_answer_comes_by_steps_told_behind_them(looks: Looks) -> None:
    whole = chunks("A", " tide", " is", "!")
    told = begun(script(), *whole[:3])
    with shown(looks, told) as page:
        send(page)
        marked_as(page, ["A", "", "", ""], [" tide", "", "", ""])
        told.stories = {"chatcmpl-1": [story("chatcmpl-1") | {"ended": None}]}
        move_on(told)
        marked_as(page, ["A", "", "", ""], [" tide", "guessed", "", ""])
        took = lines(page)
        told.stories = {}
        told.chunks += whole[3:]
        marked_as(
            page, *(["A", "", "", ""], [" tide", "guessed", "", ""], [" is", "guessed", "", ""]), ["!", "", "2", ""]
        )

        assert page.locator("article[data-state=running]").count() == 1
        assert took[:2] == ["Prompt 24 16 cached 8 computed", "Answer 2 1 guessed 1 computed 0 fell"]
        assert lines(page)[1] == "Answer 4 2 guessed 2 computed 2 fell"
        told.open = False
        page.wait_for_selector("article[data-state=ended]")


def test_what_of_the_prompt_was_cached_is_told_with_the_first_token(looks: Looks) -> None:
    told = begun(script(), *chunks("A")[:2])
    first = story("chatcmpl-1")
    told.stories = {"chatcmpl-1": [first | {"ended": None, "steps": first["steps"][:1]}]}
    with shown(looks, told) as page:
        send(page)
        until(page, "document.querySelector('.took .cached')?.textContent === '16 cached'")

        assert lines(page)[0] == "Prompt 24 16 cached 8 computed"
        told.open = False


def test_marks_move_nothing_and_say_nothing(looks: Looks) -> None:
    where = (
        "[...document.querySelectorAll('.piece, .answer, .took, .took > div, #ask')].map((one) => {"
        " const {x, y, width, height} = one.getBoundingClientRect(); return [x, y, width, height]; })"
    )
    told = begun(script(), *chunks("A", " tide", " is", " the rise and fall" * 5)[:5])
    with shown(looks, told) as page:
        send(page)
        until(page, "document.querySelectorAll('.piece').length === 4")
        text, before = page.text_content(".answer"), page.evaluate(where)
        told.stories = {"chatcmpl-1": [story("chatcmpl-1") | {"ended": None}]}
        move_on(told)
        page.wait_for_selector(".piece.drafted")
        page.wait_for_selector(".piece[data-fell]")

        assert page.evaluate(where) == before
        assert page.text_content(".answer") == text
        assert page.get_attribute(".answer", "aria-busy") == "true"
        told.open = False
        page.wait_for_selector("article[data-state=ended]")
        assert page.get_attribute(".answer", "aria-busy") == "false"
        assert page.locator("#talk [aria-live]").count() == 2, "the text, and what is told of the token that was chosen"
        assert page.locator(".took [aria-live], .took [role]").count() == 0


def test_tokens_behind_reasoning_have_their_own_marks(looks: Looks) -> None:
    first, *rest = chunks("", "", "")
    told = begun(script(), first, thought("hm", 0), thought(" so", 1), chunk("Yes", 2), chunk("!", 3))
    told.stories = {"chatcmpl-1": [story("chatcmpl-1")]}
    told.chunks.append(rest[-1])
    told.open = False
    with shown(looks, told) as page:
        send(page)
        marked_as(page, ["Yes", "guessed", "", ""], ["!", "", "2", ""])

        assert page.inner_text(".thought") == "hm so"


def test_guesses_that_fell_where_the_answer_ended_are_marked_behind_it(looks: Looks) -> None:
    cut = script()
    cut.chunks = chunks("A", " tide", " is")
    with shown(looks, cut) as page:
        ask(page)
        marked_as(page, ["A", "", "", ""], [" tide", "guessed", "", ""], [" is", "guessed", "", "2"])
        page.focus(".answer")
        page.keyboard.press("End")

        assert "2 guesses fell behind it" in page.inner_text(".token")


def test_an_answer_whose_steps_nobody_noted_is_shown_without_marks(looks: Looks) -> None:
    unknown = script()
    unknown.stories = {}
    with shown(looks, unknown) as page:
        ask(page)

        assert {mark for _, *marks in marked(page) for mark in marks} == {""}
        assert lines(page)[:2] == ["Prompt 24 16 cached 8 computed", "Answer 4 \u2013 \u2013 \u2013"]


def test_a_token_that_is_read_by_keyboard_while_the_answer_comes_stays_chosen(looks: Looks) -> None:
    whole = chunks("A", " tide", " is", "!")
    told = begun(script(), *whole[:3])
    with shown(looks, told) as page:
        send(page)
        until(page, "document.querySelectorAll('.piece').length === 2")
        page.focus(".answer")
        page.keyboard.press("ArrowRight")
        before = page.inner_text(".token p")
        told.stories = {"chatcmpl-1": [story("chatcmpl-1") | {"ended": None}]}
        told.chunks += whole[3:]
        move_on(told)
        until(page, "document.querySelector('.token p').textContent.includes('guessed')")

        assert page.inner_text(".piece.current") == " tide"
        assert page.inner_text(".token p").startswith(before)
        told.open = False


def test_who_reads_further_up_is_left_there_and_who_is_at_the_end_stays_there(looks: Looks) -> None:
    long = begun(script(), *chunks(*["tide after tide " * 20] * 8)[:9])
    until_there = "document.querySelectorAll('.piece').length === %d"
    scrolled = "document.querySelector('#talk').scrollTop"
    at_end = "(({scrollHeight: all, scrollTop: top, clientHeight: shown}) => all - top - shown < 2)"
    with shown(looks, long, height=600) as page:
        send(page)
        until(page, until_there % 8)
        assert page.evaluate(f"{at_end}(document.querySelector('#talk'))")
        page.evaluate(f"{scrolled} = 40")
        long.chunks.append(chunk("and again " * 60, 8))
        until(page, until_there % 9)

        assert page.evaluate(scrolled) == 40
        long.open = False


def test_markup_from_the_model_or_an_id_stays_text(looks: Looks) -> None:
    named = script()
    named.snapshots[0]["sequences"].append(sequence(f"{MARKUP}/0", [1]))
    named.snapshots[0]["info"]["model"] = MARKUP
    named.snapshots[0]["rejections"] = [rejection(f"{MARKUP}/0") | {"source": MARKUP}]
    named.stories = {**named.stories, MARKUP: [ended_by(MARKUP)]}
    with shown(looks, named) as page:
        ask(page, MARKUP)
        page.hover(".piece >> nth=3")
        page.click('#running button[aria-label="Steps of E"]')
        page.wait_for_selector("#steps tbody tr")

        assert page.locator("img").count() == 0
        assert MARKUP.replace(" ", "␣") in (page.text_content(".token") or "")
        for place in (".asked", ".answer", "#model", "#running", "#steps-title", "#steps-told", "#fallen"):
            assert MARKUP in (page.text_content(place) or ""), place


def test_a_character_of_several_tokens_is_shown_once_it_is_whole(looks: Looks) -> None:
    halves = script()
    first, one, other = chunks("x", "y")[:3]
    one["choices"][0]["logprobs"]["content"][0]["bytes"] = [0xC3]
    other["choices"][0]["logprobs"]["content"][0]["bytes"] = [0xA9]
    halves.chunks = [first, one, other, chunks("é")[-1]]
    with shown(looks, halves) as page:
        ask(page)

        assert page.locator(".piece").all_inner_texts() == ["", "é"]
        page.wait_for_selector(".piece.drafted")
        assert page.locator(".piece.drafted").all_inner_texts() == ["é"]


@pytest.mark.parametrize("count", [1, 40, 2560, 100_000])
def test_a_pool_of_any_size_is_drawn_and_described(looks: Looks, count: int) -> None:
    with shown(looks, Script([snapshot(sequence("r/0", [0]), codes="1" + "0" * (count - 1))])) as page:
        page.focus("#map")

        assert "0: " in page.inner_text("#map-told") or "Blocks 0 to" in page.inner_text("#map-told")
        assert page.evaluate("document.querySelector('#map').clientHeight") <= 340
        assert pixels(page, "#map", 2, 2)[3] == 255


def pixels(page: "Page", canvas: str, x: int, y: int) -> list[int]:
    return list(
        page.evaluate(
            "([id, x, y]) => [...document.querySelector(id).getContext('2d').getImageData(x, y, 1, 1).data]",
            [canvas, x, y],
        )
    )


def test_groups_and_slots_are_shown_where_there_are_some(looks: Looks) -> None:
    several = snapshot(sequence("r/0", [0, 1], [2], slot=1), codes="114600", groups=2, slots="0130")
    with shown(looks, Script([several])) as page:
        rows = page.locator("#groups tbody tr").all_inner_texts()
        page.focus("#slot-map")
        page.keyboard.press("ArrowRight")
        owned = page.inner_text("#slot-told")
        page.keyboard.press("ArrowRight")
        kept = page.inner_text("#slot-told")
        page.focus("#map")
        page.keyboard.press("ArrowRight")
        page.keyboard.press("ArrowRight")
        grouped = page.inner_text("#map-told")

    assert [row.split("\t") for row in rows] == [
        ["attention of kind 0", "2", "0", "0"],
        ["attention of kind 1", "1", "0", "1"],
    ]
    assert owned == "Slot 1: the state of A after 40 positions."
    assert kept.startswith("Slot 2: a checkpoint")
    assert grouped.startswith("Block 2 (attention of kind 1): A has its positions 0 to 15 here")


@pytest.mark.parametrize("width", [320, 360, 768, 1100, 1920])
@pytest.mark.parametrize("count", [40, 2560])
def test_nothing_scrolls_sideways_at_any_width(looks: Looks, width: int, count: int) -> None:
    wide = script()
    wide.snapshots[0] |= {"units": {"states": CODES + "0" * (count - 40)}}
    with shown(looks, wide, width=width) as page:
        ask(page, "a" * 200)
        page.click("#ask summary")

        assert page.evaluate("document.documentElement.scrollWidth") <= width
        page.click('#running button[aria-label="Steps of A"]')
        page.wait_for_selector("#steps tbody tr")
        assert page.evaluate("document.querySelector('#steps').scrollWidth") <= width


CONTRASTS = """
() => {
  const channels = (text) => {  // as the browser paints it, whatever the notation
    const pen = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
    pen.fillStyle = text;
    pen.fillRect(0, 0, 1, 1);
    return [...pen.getImageData(0, 0, 1, 1).data].map((value, index) => index < 3 ? value : value / 255);
  };
  const light = ([r, g, b]) => [r, g, b].map((v) => v / 255)
    .map((v) => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, index) => sum + v * [0.2126, 0.7152, 0.0722][index], 0);
  const over = (top, under) => top.slice(0, 3).map((v, index) => v * top[3] + under[index] * (1 - top[3])).concat(1);
  const ground = (element) => {
    const layers = [];
    for (let one = element; one; one = one.parentElement) layers.push(channels(getComputedStyle(one).backgroundColor));
    return layers.reverse().reduce((under, top) => over(top, under), [255, 255, 255, 1]);
  };
  const low = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const element = node.parentElement;
    if (!node.textContent.trim() || !element.checkVisibility({ visibilityProperty: true })) continue;
    const under = ground(element);
    const [one, other] = [light(over(channels(getComputedStyle(element).color), under)), light(under)];
    const ratio = (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
    if (ratio < 4.5) low.push(`${ratio.toFixed(2)} ${element.className} ${node.textContent.trim().slice(0, 30)}`);
  }
  const style = getComputedStyle(document.documentElement);
  const surface = light(channels(style.getPropertyValue("--surface")));
  const owners = [..."01234567"].map((hue) => `--owner-${hue}`);
  for (const name of [...owners, "--kept", "--edge", "--mark", "--bad", "--good"]) {
    const one = light(channels(style.getPropertyValue(name)));
    const ratio = (Math.max(one, surface) + 0.05) / (Math.min(one, surface) + 0.05);
    if (ratio < 3) low.push(`${ratio.toFixed(2)} ${name}`);
  }
  return low;
}
"""


@pytest.mark.parametrize("scheme", SCHEMES)
def test_text_and_colours_stand_out_enough(looks: Looks, scheme: Literal["light", "dark"]) -> None:
    with shown(looks, script(), scheme=scheme) as page:
        ask(page)
        page.focus(".answer")
        page.click("#ask summary")
        low = page.evaluate(CONTRASTS)
        page.click('#running button[aria-label="Steps of A"]')
        page.wait_for_selector("#steps tbody tr")
        low += page.evaluate(CONTRASTS)

    assert low == []


def test_the_schemes_differ_in_the_map_too(looks: Looks) -> None:
    with shown(looks, script()) as page:
        light = pixels(page, "#map", 2, 2)
        page.emulate_media(color_scheme="dark")
        until(page, f"document.querySelector('#map').getContext('2d').getImageData(2, 2, 1, 1).data[0] !== {light[0]}")


def test_bars_glide_but_not_for_those_who_want_no_motion(looks: Looks) -> None:
    with shown(looks, script()) as page:
        assert page.evaluate("getComputedStyle(document.querySelector('.fill')).transitionDuration") == "0.2s"
        page.emulate_media(reduced_motion="reduce")
        assert page.evaluate("getComputedStyle(document.querySelector('.fill')).transitionDuration") == "0s"


def test_everything_that_is_asked_for_has_a_name(looks: Looks) -> None:
    with shown(looks, script()) as page:
        unnamed = page.evaluate(
            "[...document.querySelectorAll('input, textarea, button, canvas, a, dialog, section')].filter((one) =>"
            " !one.getAttribute('aria-label') && !one.getAttribute('aria-labelledby') && !one.labels?.length"
            " && !one.textContent.trim()).map((one) => one.outerHTML.slice(0, 80))"
        )

    assert unnamed == []


def test_rates_end_when_nothing_more_comes(looks: Looks) -> None:
    moving = script()
    later = moving.snapshots[0] | {"whole": False, "time": 11.0, "units": {}, "rejections": []}
    later["positions"] = later["positions"] | {"computed": 500}
    moving.snapshots.append(later)
    with shown(looks, moving) as page:
        value = "#readings div:nth-child(3) .value"
        until(page, f"Number(document.querySelector('{value}').textContent) > 100")
        until(page, f"document.querySelector('{value}').textContent === '0'")


def watchers_of(script: Script) -> int:
    return script.watchers


def test_a_hidden_tab_closes_the_stream_and_opens_it_on_return(looks: Looks) -> None:
    watched = script()
    with shown(looks, watched) as page:
        hide = "Object.defineProperty(document, 'hidden', {value: %s, configurable: true});"
        hide += "document.dispatchEvent(new Event('visibilitychange'));"
        page.evaluate(hide % "true")
        page.wait_for_selector('#link[data-state="hidden"]')
        give_up = time.monotonic() + 30
        while watchers_of(watched) and time.monotonic() < give_up:
            page.wait_for_timeout(20)
        assert watchers_of(watched) == 0
        page.evaluate(hide % "false")
        page.wait_for_selector('#link[data-state="live"]')

        assert watchers_of(watched) == 1


def test_an_answer_that_breaks_off_says_so_and_the_next_question_works(looks: Looks) -> None:
    broken = script()
    good = broken.chunks
    broken.chunks = [*good[:2], {"error": {"message": f"the engine stopped {MARKUP}"}}]
    with shown(looks, broken) as page:
        page.fill("#question", "hi")
        page.click("#send")
        page.wait_for_selector(".failure:not([hidden])")
        failure = page.inner_text(".failure")
        broken.chunks = good
        ask(page)

        assert failure == f"the engine stopped {MARKUP}"
        page.click("#chat-new")
        assert page.locator("#talk > *").count() == 0
