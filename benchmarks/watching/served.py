"""`tidemark`, but that a server forgets its last watcher at once.

After the last one it notes steps for a minute more, for whose connection broke. Here rounds alone follow rounds that
were watched, and would pay for it.
"""

import sys
from functools import partial

from server import service
from server.cli import main
from server.lookout import Lookout


def forget_at_once() -> None:
    """Let every server of this process do so."""
    setattr(service, Lookout.__name__, partial(Lookout, linger_seconds=0.0))


if __name__ == "__main__":
    forget_at_once()
    sys.exit(main())
