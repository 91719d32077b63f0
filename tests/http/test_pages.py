"""The live page and that of the API: what a browser is sent, and what it may do with it."""

import re
import tomllib
from html.parser import HTMLParser

import pytest
from pydantic import SecretStr

from server.routes.pages import FILES
from tests.fakes import make_service, make_settings
from tests.http.clients import client_of
from tests.http.processes import ROOT

pytestmark = pytest.mark.anyio

TYPES = {"html": "text/html", "js": "text/javascript", "css": "text/css"}
PATHS = {path: TYPES[file.rpartition(".")[2]] for path, file in FILES.items()}
TEXTS = [path for path, kind in PATHS.items() if kind != "text/html"]
MODULES = [path for path in TEXTS if path.startswith("/page/") and path.endswith(".js")]
VOID = {"meta", "link", "input", "br"}
MARKUP_FROM_TEXT = (
    r"innerHTML|outerHTML|insertAdjacent|document\.write|\beval\b|new Function|localStorage|setAttribute\(.style"
)


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


async def _code(path: str) -> str:
    """A file without its lines of comment."""
    return re.sub(r"^//.*", "", await text_of(path), flags=re.M)


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


@pytest.mark.parametrize("path", PATHS)
async def test_a_browser_asks_each_time_and_is_sent_only_what_it_has_not(path: str) -> None:
    async with client_of(make_service()) as client:
        first = await client.get(path)
        same = [await client.get(path, headers={"if-none-match": tag}) for tag in _tags(first.headers["etag"])]
        other = await client.get(path, headers={"if-none-match": '"another"'})
        head = await client.head(path)

    assert first.headers["cache-control"] == "no-cache"
    assert [(one.status_code, one.content) for one in same] == [(304, b"")] * 3
    assert {one.headers["etag"] for one in (*same, other, head)} == {first.headers["etag"]}
    assert (other.status_code, other.content) == (200, first.content)
    assert (head.status_code, head.content) == (200, b"")


def _tags(tag: str) -> list[str]:
    return [tag, f"W/{tag}", f'"another", {tag}']


async def test_every_file_of_the_pages_is_served_and_installed() -> None:
    folder = ROOT / "server" / "pages"
    installed = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]["server"]

    files = {str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file()}
    assert files == {*FILES.values()}
    assert {file for pattern in installed for file in (ROOT / "server").glob(pattern) if file.is_file()} == {
        folder / file for file in files
    }


@pytest.mark.parametrize(
    ("path", "links"),
    [
        ("/docs", {"docs/page.js", "docs/page.css", "data:,", "openapi.json"}),
        ("/", {"page/main.js", "page/page.css", "data:,", "docs", "metrics", "ledger", "#question"}),
    ],
)
async def test_a_page_is_well_formed_and_has_nothing_inline_or_from_elsewhere(path: str, links: set[str]) -> None:
    page = Page(await text_of(path))

    assert page.complaints == []
    assert page.inline == []
    assert [name for _, attributes in page.elements for name in attributes if name.startswith("on")] == []
    assert page.values("style") == []
    assert {*page.values("src"), *page.values("href")} == links
    assert len(page.values("id")) == len({*page.values("id")})


@pytest.mark.parametrize("path", TEXTS)
async def test_nothing_is_fetched_from_elsewhere(path: str) -> None:
    assert (
        re.findall(r"https?:(?!//www\.w3\.org/2000/svg)|//[a-z]+\.(?!w3)|@import (?!\{)|\burl\(", await _code(path))
        == []
    )


async def test_the_script_finds_what_it_looks_for_and_makes_no_markup() -> None:
    page, script = Page(await text_of("/docs")), await text_of("/docs/page.js")

    ids, classes = {*page.values("id")}, {word for value in page.values("class") for word in value.split()}
    looked_for = re.findall(r'at\(\w+, "([#.])([a-z]+)', script)
    assert {name for kind, name in looked_for if kind == "#"} <= ids
    assert {name for kind, name in looked_for if kind == "."} <= classes
    assert re.findall(MARKUP_FROM_TEXT, script) == []


async def test_the_live_page_has_what_its_modules_look_for_and_they_make_no_markup() -> None:
    page = Page(await text_of("/"))
    scripts = {path: await text_of(path) for path in MODULES}

    together = "".join(scripts.values())
    assert {*re.findall(r'\bat\("([a-z-]+)"\)', together)} <= {*page.values("id")}
    assert re.findall(MARKUP_FROM_TEXT, together) == []
    imported = re.findall(r'(?:from|@import .*? from) "\./([a-z]+\.js)"', together)
    assert {f"/page/{name}" for name in imported} | {"/page/main.js"} == {*MODULES}


@pytest.mark.parametrize("attribute", ["for", "aria-labelledby", "aria-describedby"])
async def test_what_an_element_of_the_live_page_refers_to_is_there(attribute: str) -> None:
    page = Page(await text_of("/"))

    referred = {id for value in page.values(attribute) for id in value.split()}
    assert referred
    assert referred <= {*page.values("id")}


async def test_with_keys_set_the_page_needs_none_and_what_it_shows_does() -> None:
    settings = make_settings(api_keys=(SecretStr("k"),))
    async with client_of(make_service(settings=settings)) as client:
        shell = [(await client.get(path)).status_code for path in PATHS]
        refused = await client.get("/openapi.json")
        shown = await client.get("/openapi.json", headers={"authorization": "Bearer k"})

    assert set(shell) == {200}
    assert (refused.status_code, shown.status_code) == (401, 200)


@pytest.mark.parametrize("path", PATHS)
async def test_a_page_holds_nothing_of_the_model(path: str) -> None:
    assert "org/tiny" not in await text_of(path)
