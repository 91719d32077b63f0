import pytest
import torch

from engine.errors import ModelUnsupported
from engine.model.forward import Forward
from engine.model.linear import RowLinear
from engine.model.padding import settle_paddings
from engine.model.rows import RowCounts
from engine.step import Chunk, Plan, Table, Ticket
from tests.models.architectures import ARCHITECTURES, VOCABULARY_SIZE, make_model
from tests.models.support import make_forward, run

TOKENS = tuple(3 + at % 90 for at in range(20))


@pytest.fixture
def forward() -> Forward:
    return make_forward(make_model(ARCHITECTURES["llama"]()))


def test_paddings_ascend_to_the_most_rows_of_a_step(forward: Forward) -> None:
    assert forward.paddings[-1] >= 256
    assert list(forward.paddings) == sorted(set(forward.paddings))


def test_every_padding_is_whole_products_of_every_layer(forward: Forward) -> None:
    linears = [module for module in forward._model.model.modules() if isinstance(module, RowLinear)]

    assert len(linears) == 14
    for linear in linears:
        assert all(sum(linear.rows.split(padding)) == padding for padding in forward.paddings)


def test_a_step_that_needs_no_logits_gives_none(forward: Forward) -> None:
    plan = Plan(1, (Chunk(Ticket("s", 0, 1, 0, (Table((0, 1, 2)),)), TOKENS),))

    with torch.inference_mode():
        logits = forward.run(plan)

    assert logits.shape == (0, VOCABULARY_SIZE)


def test_fewer_threads_are_used_where_more_would_mix_rows(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def only_for_one_thread(widths: set[int], *, quantum: int, max_rows: int, dtype: torch.dtype) -> tuple[int, ...]:
        found = settle_paddings(widths, quantum=quantum, max_rows=max_rows, dtype=dtype)
        return found if torch.get_num_threads() == 1 else ()

    monkeypatch.setattr("engine.model.forward.settle_paddings", only_for_one_thread)

    forward = make_forward(make_model(ARCHITECTURES["llama"]()), num_threads=2)

    assert forward.num_threads == 1
    assert "1 of 2 threads are used" in caplog.text


def test_rows_that_can_only_be_computed_one_by_one_are_told(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def one_by_one(linears: list[RowLinear], **_: object) -> int:
        for linear in linears:
            linear.rows = RowCounts((1,))
        return 1

    monkeypatch.setattr("engine.model.forward.settle_rows", one_by_one)

    forward = make_forward(make_model(ARCHITECTURES["llama"]()))

    assert "one by one" in caplog.text
    assert run(forward, (0, TOKENS, range(3)))[0].isfinite().all()


def test_a_machine_on_which_no_padding_agrees_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing_agrees(_: set[int], **options: object) -> tuple[int, ...]:
        assert options["max_rows"] == 256
        return ()

    monkeypatch.setattr("engine.model.forward.settle_paddings", nothing_agrees)

    with pytest.raises(ModelUnsupported, match="no number of rows up to 256"):
        make_forward(make_model(ARCHITECTURES["llama"]()))
