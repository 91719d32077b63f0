from pathlib import Path

from tests.models.drafted import check_draft_model, check_drafts
from tests.tiny import make_tiny_model_folder


def test_requests_of_the_default_model_are_answered_alike_with_any_drafts(default_model: Path) -> None:
    check_drafts(default_model, num_blocks=32)


def test_the_default_model_guesses_its_own_answers_right_and_changes_none_of_them(default_model: Path) -> None:
    counts = check_draft_model(default_model, default_model, num_blocks=32)

    assert counts.kept > 0.8 * counts.tokens  # the others stood behind an answer's end


def test_a_random_model_guesses_another_s_answers_wrong_and_changes_none_of_them(tmp_path: Path) -> None:
    for seed, name in enumerate(("target", "other")):
        make_tiny_model_folder(tmp_path / name, seed=seed)

    counts = check_draft_model(tmp_path / "target", tmp_path / "other", num_blocks=48)

    assert counts.kept < 0.2 * counts.tokens
