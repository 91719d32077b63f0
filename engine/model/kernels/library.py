"""Finds the native library, or says why there is none."""

import logging
from functools import cache
from pathlib import Path

from engine.model.kernels.native import Library, LibraryMismatch

NAME = "libtidemark.so"

logger = logging.getLogger(__name__)


class LibraryUnusable(Exception):
    """The library was not built, or can't be used here; the message says why."""


@cache
def library() -> Library | None:
    """The library beside this file; None, and one warning, where it was not built or can't be used here."""
    try:
        return load_library()
    except LibraryUnusable as reason:
        logger.warning("the native kernels are not used, and the model step is several times slower: %s", reason)
        return None


def load_library() -> Library:
    """The library beside this file. Raises LibraryUnusable."""
    path = Path(__file__).with_name(NAME)
    try:
        loaded = Library(path)
    except (OSError, AttributeError, LibraryMismatch) as error:  # no file, a call that it lacks, other structures
        missing = "it was not built: that takes g++ while Tidemark is installed"
        raise LibraryUnusable(str(error) if path.exists() else missing) from error
    if not loaded.levels:
        raise LibraryUnusable("no AVX2 here")
    return loaded
