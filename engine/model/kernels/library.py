"""Finds the native library, or says why there is none."""

import logging
from functools import cache
from pathlib import Path

from engine.model.kernels.native import Library, LibraryMismatch

NAME = "libtidemark.so"

logger = logging.getLogger(__name__)


@cache
def library() -> Library | None:
    """The library beside this file; None, and one warning, where it was not built or can't be used here."""
    path = Path(__file__).with_name(NAME)
    try:
        loaded = Library(path)
    except (OSError, AttributeError, LibraryMismatch) as error:  # no file, a call that it lacks, other structures
        reason = str(error) if path.exists() else "it was not built: that takes g++ while Tidemark is installed"
        logger.warning("the native kernels are not used, and the model step is several times slower: %s", reason)
        return None
    if not loaded.levels:
        logger.warning("the native kernels are not used, and the model step is several times slower: no AVX2 here")
        return None
    return loaded
