// The kernels compiled for avx2. The pragma comes after the includes: what they define must run on every CPU.
#include <immintrin.h>

#include <cstdint>

#include "kernels.h"
#include "pack.h"
#include "recurrent.h"
#include "sample.h"

#pragma GCC target("avx2,fma,f16c")

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

const Kernel* avx2_kernels() { return kTable; }
const Scans& avx2_scans() { return kScans; }
const Recurrences& avx2_recurrences() { return kRecurrences; }

}  // namespace tidemark
