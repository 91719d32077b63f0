"""Try every endpoint as /openapi.json describes it, with schemathesis: python -m tests.sdks.openapi [ARGUMENTS]."""

import subprocess
import sys

from tests.http.processes import ServerProcess
from tests.sdks.environment import ROOT, Environment
from tests.sdks.servers import FLAGS

SEED, EXAMPLES = 1, 40  # of each endpoint; beside them come the edges of every field
WORKERS = 1  # Python 3.11's syntax trees count their depth for all threads at once, and hypothesis makes some
SMALL = ("--max-model-len", "256")  # what asks for all there is ends soon
HOOKS = "tests.sdks.scenarios.schemathesis_hooks"
# What the types allow, rules over several fields may refuse; that all of it is accepted is not claimed.
NOT_CLAIMED = "positive_data_acceptance"


def main() -> int:
    """Run it, with more arguments for `st run`, and return its exit code."""
    environment = Environment("schemathesis")
    environment.make()
    with ServerProcess("tests.sdks.scripted", *FLAGS, *SMALL) as server, server.ready_client() as client:
        command = [
            *("env", f"SCHEMATHESIS_HOOKS={HOOKS}"),
            *(str(environment.python.with_name("st")), "run", f"{client.base_url}/openapi.json"),
            *("--seed", str(SEED), "--max-examples", str(EXAMPLES), "--exclude-checks", NOT_CLAIMED),
            *("--workers", str(WORKERS), "--no-color", "--continue-on-failure", "--generation-database", "none"),
        ]
        return subprocess.run([*command, *sys.argv[1:]], check=False, cwd=ROOT).returncode


if __name__ == "__main__":
    sys.exit(main())
