// The kernels compiled for AVX-512 with AMX tiles. The pragma comes after the includes: what they define must run on
// every CPU.
#include <immintrin.h>

#include <cstdint>

#include "kernels.h"
#include "pack.h"
#include "recurrent.h"
#include "sample.h"

#pragma GCC target("avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,amx-tile,amx-bf16")
#pragma GCC diagnostic ignored "-Wuninitialized"  // GCC 12 finds its own _mm512_undefined_ps() uninitialized
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#define TIDEMARK_AVX512 1  // GCC 12 does not define __AVX512F__ after the pragma
#define TIDEMARK_AMX 1

namespace tidemark {
namespace {

#include "vec.inc"
#include "store.inc"
#include "decode.inc"
#include "rows.inc"
#include "product.inc"
#include "amx_tiles.inc"
#include "amx_inputs.inc"
#include "amx_chunks.inc"
#include "linear.inc"
#include "amx_linear.inc"
#include "heads.inc"
#include "amx_attention.inc"
#include "experts.inc"
#include "recurrent.inc"
#include "sample.inc"
#include "table.inc"

}  // namespace

const Kernel* amx_kernels() { return kTable; }
const Scans& amx_scans() { return kScans; }
const Recurrences& amx_recurrences() { return kRecurrences; }

}  // namespace tidemark
