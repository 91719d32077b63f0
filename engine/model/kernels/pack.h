// How a matrix lies in memory once it is packed: the same for every level, so that any of them can run on it.
//
// Panels of 16 outputs; in a panel, one strip for each 32 inputs. A strip holds, one after the other:
//   f32        [16 pairs of inputs][16 outputs][2] float32
//   f16, bf16  [16 pairs of inputs][16 outputs][2]
//   q8         for each of its 32 / block blocks: [16 outputs] float16 scales, and where has_min [16 outputs] float16
//              minima; then [16 pairs of inputs][16 outputs][2] int8
//   q4         scales and minima as q8; then for each 8 inputs [16 outputs][2] words of 16 bits: pair i's value in bits 4 i …
#pragma once

#include <cstdint>

#include "program.h"

namespace tidemark {

constexpr int kStrip = 32;  // inputs

constexpr int64_t header_bytes(Kind kind, int block, bool has_min) {
  return kind == Kind::q8 || kind == Kind::q4 ? int64_t{kStrip / block} * kLanes * 2 * (has_min ? 2 : 1) : 0;
}

constexpr int64_t value_bytes(Kind kind) {
  switch (kind) {
    case Kind::f32: return kStrip * kLanes * 4;
    case Kind::f16:
    case Kind::bf16: return kStrip * kLanes * 2;
    case Kind::q8: return kStrip * kLanes;
    case Kind::q4: return kStrip * kLanes / 2;
  }
  return 0;
}

constexpr int64_t strip_bytes(Kind kind, int block, bool has_min) { return header_bytes(kind, block, has_min) + value_bytes(kind); }

// A plain matrix [outputs, inputs] and, for q8 and q4, its scales and minima [outputs, inputs / block] float16.
// Values: float32, float16, bfloat16, int8, or one q4 value a byte.
struct Plain {
  const void* values;
  const uint16_t* scales;
  const uint16_t* minima;
};

// Writes `weight`'s panels, padding included, to `packed`.
void pack(const Weight& weight, const Plain& plain, uint8_t* packed);

}  // namespace tidemark
