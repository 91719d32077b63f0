// The kernels compiled for avx512. The pragma comes after the includes: what they define must run on every CPU.
#include <immintrin.h>

#include <cstdint>

#include "kernels.h"
#include "pack.h"
#include "recurrent.h"
#include "sample.h"

#pragma GCC target("avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl")
#pragma GCC diagnostic ignored "-Wuninitialized"  // GCC 12 finds its own _mm512_undefined_ps() uninitialized
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#define TIDEMARK_AVX512 1  // GCC 12 does not define __AVX512F__ after the pragma

namespace tidemark {
namespace {

#include "vec.inc"
#include "store.inc"
#include "decode.inc"
#include "rows.inc"
#include "product.inc"
#include "linear.inc"
#include "heads.inc"
#include "attention.inc"
#include "experts.inc"
#include "recurrent.inc"
#include "sample.inc"
#include "table.inc"

}  // namespace

const Kernel* avx512_kernels() { return kTable; }
const Scans& avx512_scans() { return kScans; }
const Recurrences& avx512_recurrences() { return kRecurrences; }

}  // namespace tidemark
