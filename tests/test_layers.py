import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
HEAVY = ("torch", "transformers", "llguidance", "fastapi", "starlette", "uvicorn", "prometheus_client")


def heavy_modules_after(statement: str) -> str:
    """Which heavy modules a fresh process holds once it has run `statement`."""
    program = f"{statement}; import sys; print(*sorted(set({HEAVY}) & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.mark.parametrize(
    "modules",
    [
        "engine.admission, engine.plan, engine.commit, engine.publish",
        "engine.cache.blocks, engine.cache.prefix, engine.cache.tables",
        "engine.ledger, engine.sequence, engine.request, engine.step, engine.stats, engine.errors, engine.text",
        "engine.engine, engine.build",
        "config.load, config.render",
    ],
)
def test_the_host_code_needs_neither_torch_nor_a_web_framework(modules: str) -> None:
    assert heavy_modules_after(f"import {modules}") == ""


def test_this_test_would_see_a_heavy_module() -> None:
    assert "prometheus_client" in heavy_modules_after("import prometheus_client")
