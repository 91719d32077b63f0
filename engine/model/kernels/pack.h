// How a matrix lies in memory once it is packed: the same for every level, so that any of them can run on it.
//
// Panels of 16 outputs; in a panel, one block after the other of 32 inputs, or of as many as share a scale. A block holds
//   f32        [pairs of inputs][16 outputs][2] float32
//   f16, bf16  [pairs of inputs][16 outputs][2]
//   q8         [16 outputs] float16 scales, and where has_min [16 outputs] float16 minima; then [pairs of inputs][16 outputs][2] int8
//   q4         scales and minima as q8; then for each 8 inputs [16 outputs][2] words of 16 bits: pair i's value in bits 4 i …
#pragma once

#include <cstdint>

#include "program.h"

namespace tidemark {

constexpr int kStrip = 32;  // inputs; rows of a panel are padded to whole strips

constexpr bool has_scales(Kind kind) { return kind == Kind::q8 || kind == Kind::q4; }

constexpr int64_t value_bytes(Kind kind, int inputs) {
  switch (kind) {
    case Kind::f32: return inputs * kLanes * 4;
    case Kind::f16:
    case Kind::bf16: return inputs * kLanes * 2;
    case Kind::q8: return inputs * kLanes;
    case Kind::q4: return inputs * kLanes / 2;
  }
  return 0;
}

constexpr int64_t scale_bytes(Kind kind, bool has_min) { return has_scales(kind) ? kLanes * (has_min ? 4 : 2) : 0; }  // of a block

constexpr int block_inputs(const Weight& weight) { return has_scales(weight.kind) ? weight.block : kStrip; }

constexpr int64_t block_bytes(const Weight& weight) {
  return scale_bytes(weight.kind, weight.has_min != 0) + value_bytes(weight.kind, block_inputs(weight));
}

// Of one panel, padded.
constexpr int64_t panel_bytes(const Weight& weight) {
  return int64_t{(weight.inputs + kStrip - 1) / kStrip} * (kStrip / block_inputs(weight)) * block_bytes(weight);
}

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
