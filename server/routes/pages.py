"""Pages: the description of the API as people read it. What is sent holds nothing of the model; it asks for the key."""

from pathlib import Path

from fastapi import APIRouter
from starlette.responses import Response

_FOLDER = Path(__file__).parent.parent / "pages"
# Nothing from elsewhere, nothing inline, and no other page may show this one in a frame. The icon is an empty `data:`.
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "cache-control": "no-cache",
    "content-security-policy": _POLICY,
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
}
OPEN = ("/docs", "/docs/page.js", "/docs/page.css")  # need no key

router = APIRouter(include_in_schema=False)


@router.get("/docs")
async def docs() -> Response:
    """The page itself."""
    return _file("docs.html", "text/html")


@router.get("/docs/page.js")
async def docs_script() -> Response:
    """What fills it."""
    return _file("docs.js", "text/javascript")


@router.get("/docs/page.css")
async def docs_style() -> Response:
    """What it looks like."""
    return _file("docs.css", "text/css")


def _file(name: str, media_type: str) -> Response:
    return Response((_FOLDER / name).read_bytes(), headers=_HEADERS, media_type=media_type)
