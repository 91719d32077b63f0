#include "cpu.h"

#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace tidemark {
namespace {

constexpr int kRequestPermission = 0x1023;  // arch_prctl's ARCH_REQ_XCOMP_PERM
constexpr int kTileData = 18;               // the state component of the tile registers

bool has_avx2() { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c"); }

bool has_avx512() {
  return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}

bool has_tiles() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0) return false;
  const bool tiles = (d >> 24 & 1) != 0 && (d >> 22 & 1) != 0;  // AMX-TILE, AMX-BF16
  if (!tiles || !__builtin_cpu_supports("avx512bf16")) return false;
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

}  // namespace

bool supports(Level level) {
  static const bool avx2 = has_avx2();
  static const bool avx512 = has_avx512();
  switch (level) {
    case Level::avx2: return avx2;
    case Level::avx512: return avx512;
    case Level::amx: {
      static const bool tiles = avx512 && has_tiles();
      return tiles;
    }
  }
  return false;
}

}  // namespace tidemark
