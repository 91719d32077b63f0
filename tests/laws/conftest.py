"""How the mutants' runs differ: few lives, and the first one that breaks a law is enough."""

from hypothesis import Phase, settings

settings.register_profile(
    "mutant",
    settings.get_profile("ci"),
    max_examples=60,
    phases=(Phase.explicit, Phase.generate),
    report_multiple_bugs=False,
)
