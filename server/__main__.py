"""`python -m server` is `tidemark`."""

import sys

from server.cli import main

sys.exit(main())
