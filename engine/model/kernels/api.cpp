// The library's C interface, as native.py calls it. Nothing throws past it.
#include <cstdint>
#include <exception>

#include "cpu.h"
#include "kernels.h"
#include "pack.h"
#include "pool.h"
#include "recurrent.h"
#include "sample.h"

using namespace tidemark;

namespace {

const Kernel* kernels_of(int32_t level) {
  switch (static_cast<Level>(level)) {
    case Level::avx2: return avx2_kernels();
    case Level::avx512: return avx512_kernels();
    case Level::amx: return amx_kernels();
  }
  return nullptr;
}

const Scans& scans_of(int32_t level) {
  switch (static_cast<Level>(level)) {
    case Level::avx2: return avx2_scans();
    case Level::avx512: return avx512_scans();
    case Level::amx: return amx_scans();
  }
  return avx2_scans();
}

const Recurrences& recurrences_of(int32_t level) {
  switch (static_cast<Level>(level)) {
    case Level::avx2: return avx2_recurrences();
    case Level::avx512: return avx512_recurrences();
    case Level::amx: return amx_recurrences();
  }
  return avx2_recurrences();
}

}  // namespace

#define API extern "C" __attribute__((visibility("default")))

API int32_t tidemark_supports(int32_t level) { return supports(static_cast<Level>(level)) ? 1 : 0; }

// The sizes of the structures that Python mirrors, in the order of native.py.
API void tidemark_sizes(int64_t* sizes) {
  const int64_t all[] = {sizeof(Buffer), sizeof(Weight), sizeof(Cache), sizeof(Instruction), sizeof(Span), sizeof(Step), sizeof(Program),
                         sizeof(Ask), sizeof(Logits), sizeof(StateStep), sizeof(Convolution), sizeof(Selection), sizeof(DeltaRule)};
  for (int64_t size : all) *sizes++ = size;
}

API void* tidemark_open(int32_t num_threads) {
  try {
    return new Pool(num_threads);
  } catch (const std::exception&) {
    return nullptr;
  }
}

API void tidemark_close(void* pool) { delete static_cast<Pool*>(pool); }

// 0, or 1 where memory was short.
API int32_t tidemark_run(void* pool, int32_t level, const Program* program, const Step* step) {
  try {
    static_cast<Pool*>(pool)->run(kernels_of(level), *program, *step);
    return 0;
  } catch (const std::exception&) {
    return 1;
  }
}

API int64_t tidemark_panel_bytes(int32_t kind, int32_t inputs, int32_t block, int32_t has_min) {
  return panel_bytes(Weight{nullptr, 0, 0, inputs, static_cast<Kind>(kind), block, has_min, 0});
}

API void tidemark_pack(const Weight* weight, const void* values, const uint16_t* scales, const uint16_t* minima, uint8_t* packed) {
  pack(*weight, Plain{values, scales, minima}, packed);
}

// Chooses and scores tokens: one ask for each row.
API void tidemark_answer(void* pool, int32_t level, const Logits* logits, Ask* asks) {
  answer(*static_cast<Pool*>(pool), scans_of(level), *logits, asks);
}

// Recurrent layers: each span's rows, one position after the other.
API void tidemark_convolve(void* pool, int32_t level, const Convolution* convolution) {
  convolve(*static_cast<Pool*>(pool), recurrences_of(level), *convolution);
}

API void tidemark_select(void* pool, int32_t level, const Selection* selection) {
  select(*static_cast<Pool*>(pool), recurrences_of(level), *selection);
}

API void tidemark_apply_delta_rule(void* pool, int32_t level, const DeltaRule* rule) {
  apply_delta_rule(*static_cast<Pool*>(pool), recurrences_of(level), *rule);
}
