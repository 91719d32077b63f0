"""Which tests must find a mutant: each has a group of them."""

from dataclasses import dataclass

from tests.mutants.edits import Mutant


@dataclass(frozen=True, slots=True)
class Group:
    """Tests as pytest is told of them, and the options that they are run with."""

    tests: tuple[str, ...]
    options: tuple[str, ...] = ()

    @property
    def arguments(self) -> tuple[str, ...]:
        """What pytest is given to run all of them."""
        return *self.options, *self.tests


FEW_EXAMPLES = ("--hypothesis-profile=mutant",)
HOST_FILES = (
    *("cache/test_blocks", "cache/test_prefix", "cache/test_tables"),
    *("cache/test_hits", "cache/test_slots", "cache/test_windows"),
    *(
        "test_ledger",
        "test_sequence",
        "test_roster",
        "test_admission",
        "test_pace",
        "test_plan",
        "test_commit",
        "test_publish",
        "test_drafted_steps",
        "test_grammar_steps",
        "test_embeddings",
    ),
    *("grammar/test_compiler", "grammar/test_masks", "draft/test_drafts"),
    *("test_stream", "test_view", "test_engine"),
)
HOST = Group(
    (
        *(f"tests/engine/{name}.py" for name in HOST_FILES),
        *(f"tests/laws/test_machine.py::test_any_life_of_an_engine_keeps_the_laws[{part}]" for part in (0, 1)),
    ),
    FEW_EXAMPLES,
)
MODEL = Group(
    tuple(
        f"tests/engine/model/test_{name}.py"
        for name in ("attention", "experts", "grouped", "latent", "tempered", "shrink", "answer", "sampler")
    )
)
NATIVE = Group(
    (
        "tests/engine/model/test_angles.py",
        "tests/engine/model/test_parameters.py",
        "tests/engine/model/test_native_forward.py",
        "tests/engine/model/kernels/test_choice.py",
        "tests/engine/model/kernels/test_product.py",
        "tests/engine/model/kernels/test_ops.py",
        "tests/engine/model/kernels/test_attention.py",
        "tests/models/test_mixed_bits.py",
        "tests/models/test_packed.py",
        "tests/models/test_native.py",
    ),
    ("-k", "not qwen and not olmo and not granite and not smollm3 and not starcoder2 and not mha and not mqa"),
)
RECURRENT = Group(
    (
        "tests/engine/model/kernels/test_scans.py",
        "tests/engine/model/test_scans.py",
        "tests/engine/model/test_shrink.py",
        "tests/engine/model/mixers",
        "tests/models/test_recurrent.py",
    ),
    ("-k", "not experts and not qwen and not granite and not bamba and not avx512"),
)
READING = Group(
    (
        "tests/server/reading",
        "tests/server/test_calling.py",
        "tests/http/test_tools.py",
    ),
    FEW_EXAMPLES,
)
GRAMMAR = Group(
    (
        "tests/engine/grammar",
        "tests/server/test_structure.py",
        "tests/server/test_tags.py",
        "tests/server/test_calling.py",
        "tests/http/test_failed_grammars.py",
    ),
    FEW_EXAMPLES,
)
KEEPING = Group(
    (  # streams that can be resumed, and responses that are kept
        *(f"tests/server/test_{name}.py" for name in ("record", "records", "telling", "following", "sse", "store")),
        "tests/http/test_kept.py",
        "tests/http/test_resume.py",
        "tests/http/test_responses.py",
    )
)
DRAFT_MODEL = Group(
    (
        "tests/engine/draft",
        "tests/engine/cache/test_beside.py",
        "tests/engine/model/test_drafter.py",
        "tests/engine/model/test_draft_model.py",
        "tests/engine/test_drafting.py",
        "tests/engine/test_pace.py",
        "tests/laws/test_machine.py::test_any_life_of_an_engine_keeps_the_laws[0]",
    ),
    FEW_EXAMPLES,
)
WATCHERS = Group(
    (
        "tests/engine/test_holding.py",
        "tests/engine/test_preemption.py",
        "tests/engine/test_roster.py",
        "tests/engine/test_view.py",
        "tests/engine/cache/test_blocks.py",
        "tests/server/test_timelines.py",
        "tests/server/test_lookout.py",
        "tests/server/render/test_sight.py",
        "tests/server/render/test_timeline.py",
        "tests/laws/test_watchers.py",
    ),
    FEW_EXAMPLES,
)
LOGS = Group(("tests/http/test_log_lines.py", "tests/server/test_traces.py"))
TOP = Group(("tests/server/top",))
GROUP_OF = {  # faults that have tests of their own
    "recurrent": RECURRENT,
    "draft model": DRAFT_MODEL,
    "grammar": GRAMMAR,
    "reading": READING,
    "watchers": WATCHERS,
    "logs": LOGS,
    "top": TOP,
    "resume": KEEPING,
    "store": KEEPING,
}


def group_of(mutant: Mutant) -> Group:
    """The tests that must find it."""
    if mutant.fault in GROUP_OF:
        return GROUP_OF[mutant.fault]
    if mutant.native:
        return NATIVE
    return MODEL if mutant.in_model else HOST
