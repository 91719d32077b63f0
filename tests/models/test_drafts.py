from pathlib import Path

from tests.models.drafted import check_drafts


def test_200_requests_of_the_default_model_are_answered_alike_with_any_drafts(default_model: Path) -> None:
    check_drafts(default_model, num_blocks=44)
