from hypothesis import given, strategies as st

from engine.model.kernels.slab import ALIGNMENT, PAGE_BYTES, Slab, map_pages


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 3000)), max_size=12))
def test_pieces_are_zero_and_lie_apart(sizes: list[tuple[int, int]]) -> None:
    slab = Slab(step_bytes=PAGE_BYTES)

    pieces = [slab.take(rows, row_bytes) for rows, row_bytes in sizes]

    for number, piece in enumerate(pieces, 1):
        assert piece.shape == sizes[number - 1]
        assert not piece.any()
        piece.fill_(number)
    assert all((piece == number).all() for number, piece in enumerate(pieces, 1))


def test_each_piece_begins_with_a_line_of_the_cache() -> None:
    slab = Slab(step_bytes=PAGE_BYTES)

    pieces = [slab.take(3, 33), slab.take(1, 1), slab.take(2, 64), slab.take(1, 5)]

    assert [piece.data_ptr() % ALIGNMENT for piece in pieces] == [0, 0, 0, 0]


def test_a_piece_may_be_larger_than_what_is_mapped_at_once() -> None:
    slab = Slab(step_bytes=PAGE_BYTES)

    piece = slab.take(3, PAGE_BYTES)

    assert piece.shape == (3, PAGE_BYTES)
    assert not piece.any()


def test_a_piece_outlives_its_slab() -> None:
    piece = Slab(step_bytes=PAGE_BYTES).take(4, 100)

    piece.fill_(7)

    assert (piece == 7).all()


def test_pages_begin_where_a_large_page_does() -> None:
    memory = map_pages(100)

    assert memory.data_ptr() % PAGE_BYTES == 0
    assert memory.numel() == PAGE_BYTES
