"""Where a model's files are: a folder, a GGUF file, or a hub id that is fetched or already in the cache."""

import re
from collections.abc import Callable
from pathlib import Path

from huggingface_hub import HfApi, snapshot_download
from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError, RepositoryNotFoundError

from engine.errors import ModelNotFound

HUB_ID = re.compile(r"\w[\w.-]*(/\w[\w.-]*)?")
HUB_FILES = ("*.json", "*.safetensors", "*.model", "*.jinja", "*.txt", "*.tiktoken")
HUB_SECONDS = 10.0  # how long the hub may take to say that it is there

MAX_REASON_CHARACTERS = 200  # of another's error message: it may quote the input


def locate_model(path: str, progress: Callable[[str], None]) -> Path:
    """The folder or GGUF file that `path` names; fetches a hub id.

    Raises ModelNotFound, with one line that says what was looked for.
    """
    here = Path(path).expanduser()
    if here.is_dir():
        if not (here / "config.json").is_file():
            raise ModelNotFound(f"the folder {path} has no config.json")
        return here
    if here.exists():
        if here.suffix != ".gguf":
            raise ModelNotFound(f"{path} is a file, but not a .gguf file")
        return here
    if here.suffix == ".gguf" or not HUB_ID.fullmatch(path):
        raise ModelNotFound(f"there is no folder or file {path}")
    return _fetch(path, progress)


def locate_here(path: str) -> Path | None:
    """What `path` names on this machine, where `locate_model` looks first; None for a hub id that was never fetched."""
    here = Path(path).expanduser()
    if here.exists() or here.suffix == ".gguf" or not HUB_ID.fullmatch(path):
        return here
    try:
        return Path(snapshot_download(path, local_files_only=True))
    except LocalEntryNotFoundError:
        return None


def _fetch(hub_id: str, progress: Callable[[str], None]) -> Path:
    progress(f"looking for {hub_id} on the hub")
    try:
        HfApi().model_info(hub_id, timeout=HUB_SECONDS)
        return Path(snapshot_download(hub_id, allow_patterns=list(HUB_FILES)))
    except (RepositoryNotFoundError, LocalEntryNotFoundError) as error:
        reason = f"there is no folder or file {hub_id}, and the hub shows no such model without a key"
        raise ModelNotFound(reason) from error
    except HfHubHTTPError as error:
        raise ModelNotFound(f"the hub does not give {hub_id}: {one_line(error)}") from error
    except Exception as error:  # noqa: BLE001  # the HTTP client's own errors: no network, no name, a time-out
        return _from_cache(hub_id, error)


def _from_cache(hub_id: str, error: Exception) -> Path:
    """What an earlier run fetched, where the hub can't be reached."""
    try:
        return Path(snapshot_download(hub_id, local_files_only=True))
    except LocalEntryNotFoundError:
        reason = f"there is no folder or file {hub_id}, and the hub can't be reached to fetch it ({one_line(error)})"
        raise ModelNotFound(reason) from error


def one_line(error: Exception) -> str:
    """What an error says, in one line of bounded length."""
    return " ".join(str(error).split())[:MAX_REASON_CHARACTERS] or type(error).__name__
