"""Simon Willison's llm, told of the server by extra-openai-models.yaml."""

import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.sdks.scenarios.checks import MODEL, Checks, Servers

check = Checks()
LLM = Path(sys.executable).with_name("llm")
ENTRY = """
- model_id: tide
  model_name: {model}
  api_base: "{url}/v1"
  supports_tools: true
  supports_schema: true
"""


def llm(url: str, *arguments: str, given: str | None = None) -> str:
    """What the command prints."""
    with TemporaryDirectory() as folder:
        Path(folder, "extra-openai-models.yaml").write_text(ENTRY.format(model=MODEL, url=url))
        done = subprocess.run(
            [LLM, *arguments],
            check=True,
            env={**os.environ, "LLM_USER_PATH": folder},
            input=given,
            stdout=subprocess.PIPE,
            text=True,
        )
    return done.stdout.strip()


@check("a prompt, streamed and whole")
def prompt(servers: Servers) -> None:
    wanted = ("prompt", "-m", "tide", "-o", "temperature", "0", "-o", "max_tokens", "24", "What is a tide?")
    streamed = llm(servers.real, *wanted)
    assert streamed
    assert streamed == llm(servers.real, *wanted, "--no-stream")


@check("a chat, streamed")
def chat(servers: Servers) -> None:
    said = llm(servers.scripted, "chat", "-m", "tide", given="What will the weather be?\nAnd then?\nquit\n")
    assert said.count("It will be sunny in Lisbon.") == 2


if __name__ == "__main__":
    check.run()
