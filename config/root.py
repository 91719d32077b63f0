"""Root: the files below `/` in which a system tells about itself, or a folder of a test that looks like them."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Root:
    """Where the files are. What can't be read is not known, and never an error."""

    path: Path = Path("/")

    def text(self, name: str) -> str | None:
        """What a file holds; None where it can't be read."""
        try:
            return (self.path / name).read_text(encoding="utf-8", errors="replace").strip()
        except (OSError, ValueError):
            return None

    def number(self, name: str) -> int | None:
        """The number that a file holds; None where it holds another word, such as `max`."""
        text = self.text(name)
        return int(text) if text is not None and text.isdecimal() else None

    def fields(self, name: str, separator: str | None = ":") -> dict[str, str]:
        """A file's lines of names and values. Of a name that comes again the first value counts."""
        found: dict[str, str] = {}
        for line in (self.text(name) or "").splitlines():
            key, *rest = line.split(separator, 1)
            found.setdefault(key.strip(), rest[0].strip() if rest else "")
        return found

    def names(self, folder: str) -> tuple[str, ...]:
        """What lies in a folder."""
        try:
            return tuple(sorted(each.name for each in (self.path / folder).iterdir()))
        except OSError:
            return ()

    def has(self, name: str) -> bool:
        """Whether there is such a file or folder."""
        try:
            return (self.path / name).exists()
        except OSError:
            return False

    def upwards(self, mount: str, group: str) -> Iterator[str]:
        """A folder below a mount, and those above it up to the mount itself."""
        parts = [part for part in group.split("/") if part and part != ".."]
        for count in range(len(parts), -1, -1):
            yield "/".join([mount, *parts[:count]])
