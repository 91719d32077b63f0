"""Pages: the live one, and the description of the API. What is sent holds nothing of the model; it asks for the key."""

from hashlib import sha256
from pathlib import Path

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

_FOLDER = Path(__file__).parent.parent / "pages"
# Nothing from elsewhere, nothing inline, and no other page may show this one in a frame. The icon is an empty `data:`.
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "cache-control": "no-cache",  # with the tag: a browser asks each time, and an upgrade is seen at once
    "content-security-policy": _POLICY,
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
}
_TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript"}
_MODULES = (
    *("answer", "asking", "blocks", "chat", "dom", "fallen", "feed", "key", "layout", "main", "making", "map", "marks"),
    *("owners", "paint", "places", "rates", "readings", "requests", "sse", "steps", "story", "took", "turn", "types"),
    *("words", "world"),
)
FILES = {
    "/": "live/index.html",
    "/page/page.css": "live/page.css",
    **{f"/page/{name}.js": f"live/{name}.js" for name in _MODULES},
    "/docs": "docs.html",
    "/docs/page.js": "docs.js",
    "/docs/page.css": "docs.css",
}
OPEN = tuple(FILES)  # need no key

router = APIRouter(include_in_schema=False)


async def page(request: Request) -> Response:
    """A file of a page; nothing but its headers where the browser has it already."""
    file = _FOLDER / FILES[request.scope["path"]]
    content = file.read_bytes()
    headers = _HEADERS | {"etag": f'"{sha256(content).hexdigest()[:32]}"'}
    if headers["etag"] in request.headers.get("if-none-match", ""):  # a proxy may have made it weak, or sent several
        return Response(status_code=304, headers=headers)
    return Response(content, headers=headers, media_type=_TYPES[file.suffix])


for path in FILES:
    router.add_api_route(path, page)
