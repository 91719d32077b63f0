"""The page of the API: what a browser is sent, and what it may do with it."""

import re
from html.parser import HTMLParser

import pytest
from pydantic import SecretStr

from tests.fakes import make_service, make_settings
from tests.http.clients import client_of

pytestmark = pytest.mark.anyio

PATHS = {"/docs": "text/html", "/docs/page.js": "text/javascript", "/docs/page.css": "text/css"}
VOID = {"meta", "link", "input", "br"}


class Page(HTMLParser):
    """Every element with its attributes, and a complaint wherever an end does not fit its begin."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.complaints: list[str] = []
        self.inline: list[str] = []
        self._open: list[str] = []
        self.feed(text)
        self.complaints += self._open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if not self._open or self._open.pop() != tag:
            self.complaints.append(f"/{tag}")

    def handle_data(self, data: str) -> None:
        if self._open and self._open[-1] in ("script", "style") and data.strip():
            self.inline.append(data)

    def values(self, attribute: str) -> list[str]:
        """All values of an attribute."""
        return [str(attributes[attribute]) for _, attributes in self.elements if attribute in attributes]


async def text_of(path: str) -> str:
    async with client_of(make_service()) as client:
        return (await client.get(path)).text


@pytest.mark.parametrize("path", PATHS)
async def test_a_browser_may_do_nothing_but_run_the_pages_own_script(path: str) -> None:
    async with client_of(make_service()) as client:
        answer = await client.get(path)

    policy = dict(part.strip().split(" ", 1) for part in answer.headers["content-security-policy"].split(";"))
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith(PATHS[path])
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert policy["default-src"] == "'none'"
    assert {policy["script-src"], policy["style-src"], policy["connect-src"]} == {"'self'"}
    assert policy["frame-ancestors"] == "'none'"


async def test_the_page_is_well_formed_and_has_nothing_inline_or_from_elsewhere() -> None:
    page = Page(await text_of("/docs"))

    assert page.complaints == []
    assert page.inline == []
    assert [name for _, attributes in page.elements for name in attributes if name.startswith("on")] == []
    assert page.values("style") == []
    assert {*page.values("src"), *page.values("href")} == {"docs/page.js", "docs/page.css", "data:,", "openapi.json"}
    assert len(page.values("id")) == len({*page.values("id")})


@pytest.mark.parametrize("path", ["/docs/page.js", "/docs/page.css"])
async def test_nothing_is_fetched_from_elsewhere(path: str) -> None:
    assert (
        re.findall(r"https?:|//[a-z]+\.|@import|\burl\(", re.sub(r"^//.*", "", await text_of(path), flags=re.M)) == []
    )


async def test_the_script_finds_what_it_looks_for_and_makes_no_markup() -> None:
    page, script = Page(await text_of("/docs")), await text_of("/docs/page.js")

    ids, classes = {*page.values("id")}, {word for value in page.values("class") for word in value.split()}
    looked_for = re.findall(r'at\(\w+, "([#.])([a-z]+)', script)
    assert {name for kind, name in looked_for if kind == "#"} <= ids
    assert {name for kind, name in looked_for if kind == "."} <= classes
    assert re.findall(r"innerHTML|outerHTML|insertAdjacent|document\.write|\beval\b|localStorage", script) == []


async def test_with_keys_set_the_page_needs_none_and_what_it_shows_does() -> None:
    settings = make_settings(api_keys=(SecretStr("k"),))
    async with client_of(make_service(settings=settings)) as client:
        shell = [(await client.get(path)).status_code for path in PATHS]
        refused = await client.get("/openapi.json")
        shown = await client.get("/openapi.json", headers={"authorization": "Bearer k"})

    assert shell == [200, 200, 200]
    assert (refused.status_code, shown.status_code) == (401, 200)
    assert "org/tiny" not in await text_of("/docs")
