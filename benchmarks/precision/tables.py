"""What was measured, as Markdown, and whether `auto` loses as little as it promises."""

from typing import TYPE_CHECKING

from benchmarks.table import ABSENT, markdown

if TYPE_CHECKING:
    from collections.abc import Mapping

    from benchmarks.precision.loss import Loss
    from benchmarks.precision.measure import Result, Results

MAX_MEAN_KL, MIN_SAME_BEST = 0.003, 0.99  # what `auto` may lose
MEGA = 1e6
LEAST_SHOWN = 1e-6
SIZES = ("memory, MB", "cache, bytes a position")
LOSSES = ("mean KL", "largest KL", "same best token", "top 20 change by", "perplexity")
NOTHING = (ABSENT,) * (len(LOSSES) - 1)


def tables(results: "Results", best: str) -> str:
    """What each choice costs, on the level `best`; whether `auto` keeps its promise; what was acted out."""
    base = results.reference
    first = ("float32 arithmetic", *_sizes(base), *NOTHING, f"{base.loss.perplexity:.3f}")
    served = {**results.levels, **results.choices}
    rows = [(name, *_sizes(result), *_losses(result.loss)) for name, result in served.items()]
    parts = [
        markdown((f"on {best}, but for the levels", *SIZES, *LOSSES), [first, *rows]),
        judgement({name: result.loss for name, result in results.levels.items()}),
    ]
    if results.roundings:
        acted = [(name, *_losses(result.loss)) for name, result in results.roundings.items()]
        parts.append(markdown(("inputs of linear layers rounded to", *LOSSES), acted))
    return "\n\n".join(parts)


def judgement(levels: "Mapping[str, Loss]") -> str:
    """Which levels keep what `auto` promises."""
    kept = [name for name, loss in levels.items() if loss.mean_kl < MAX_MEAN_KL and loss.same_best >= MIN_SAME_BEST]
    missed = [name for name in levels if name not in kept]
    promise = f"`auto` promises a mean KL below {MAX_MEAN_KL} and the same best token for {MIN_SAME_BEST:.0%}"
    parts = [f"{verb} by {', '.join(names)}" for verb, names in (("kept", kept), ("missed", missed)) if names]
    return f"{promise}: {', '.join(parts)}."


def _sizes(result: "Result") -> tuple[str, str]:
    return f"{result.weight_bytes / MEGA:.0f}", f"{result.position_bytes:,}"


def _losses(loss: "Loss") -> tuple[str, ...]:
    shares = (_small(loss.mean_kl), _small(loss.max_kl), f"{loss.same_best:.2%}", f"{loss.top_change:.4f}")
    return (*shares, f"{loss.perplexity:.3f}")


def _small(value: float) -> str:
    return f"{value:.6f}" if value >= LEAST_SHOWN else "under 0.000001"
