"""The layouts of models that mix kinds of layers, as their configs say."""

from engine.cache.layout import CacheGroup, Layout, Reach, RowShape


def rows(num_kv_heads: int, dim: int, dtype: str = "bfloat16") -> RowShape:
    """Rows with K and V alike."""
    return RowShape(num_kv_heads, dim, dim, dtype)


def mixture(
    every: int,
    num_layers: int,
    size: int,
    shape: RowShape,
    *,
    reach: Reach = Reach.WINDOW,
    full: RowShape | None = None,
) -> Layout:
    """Every so-many-th layer has full attention, the others a window or chunks."""
    layers = range(num_layers)
    near = tuple(layer for layer in layers if (layer + 1) % every)
    far = tuple(layer for layer in layers if not (layer + 1) % every)
    return Layout((CacheGroup(near, shape, reach, size), CacheGroup(far, full or shape)))


GEMMA_3_1B = mixture(6, 26, 512, rows(1, 256))
GEMMA_3_270M = mixture(6, 18, 512, rows(1, 256))
GPT_OSS_20B = mixture(2, 24, 128, rows(8, 64))
LLAMA_4_SCOUT = mixture(4, 48, 8192, rows(8, 128), reach=Reach.CHUNK)
GEMMA_3N_E2B = Layout(
    mixture(5, 20, 512, rows(2, 256)).groups,
    owners=tuple((layer, 19 if layer % 5 == 4 else 18) for layer in range(20, 30)),
)
DEEPSEEK_V2_LITE = Layout((CacheGroup(tuple(range(27)), RowShape(1, 576, 512, "bfloat16", latent=True)),))
SEVERAL_SHAPES = {
    "wide heads in full attention": mixture(6, 60, 1024, rows(16, 256), full=rows(4, 512)),
    "more heads in windows": mixture(
        6, 48, 128, RowShape(8, 192, 128, "bfloat16"), full=RowShape(4, 192, 128, "bfloat16")
    ),
    "two types": mixture(2, 24, 128, rows(8, 64, "int8"), full=rows(8, 64)),
}
MIXTURES = {
    "gemma 3 1b": GEMMA_3_1B,
    "gemma 3 270m": GEMMA_3_270M,
    "gemma 3 4b": mixture(6, 34, 1024, rows(4, 256)),
    "gemma 3 27b": mixture(6, 62, 1024, rows(16, 128)),
    "gemma 2 2b": mixture(2, 26, 4096, rows(4, 256)),
    "gpt-oss 20b": GPT_OSS_20B,
    "llama 4 scout": LLAMA_4_SCOUT,
    "cohere 2 7b": mixture(4, 32, 4096, rows(8, 128)),
    "gemma 3n e2b": GEMMA_3N_E2B,
    "deepseek v2 lite": DEEPSEEK_V2_LITE,
    **SEVERAL_SHAPES,
}
