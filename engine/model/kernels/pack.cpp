#include "pack.h"

#include <cstring>

namespace tidemark {
namespace {

// The values of one strip, one pair of inputs after the other, the 16 outputs of a pair side by side.
template <typename T>
void pack_pairs(const Weight& weight, const T* values, int32_t panel, int32_t strip, T* out) {
  for (int32_t lane = 0; lane < kLanes; ++lane) {
    const int32_t output = panel * kLanes + lane;
    if (output >= weight.outputs) continue;
    const T* row = values + int64_t{output} * weight.inputs;
    for (int32_t k = 0; k < kStrip && strip * kStrip + k < weight.inputs; ++k)
      out[(k / 2 * kLanes + lane) * 2 + k % 2] = row[strip * kStrip + k];
  }
}

// The two bytes of an output's input hold it and the same of the three pairs that follow, the first in the lowest four bits.
void pack_halves(const Weight& weight, const uint8_t* values, int32_t panel, int32_t strip, uint8_t* out) {
  for (int32_t lane = 0; lane < kLanes; ++lane) {
    const int32_t output = panel * kLanes + lane;
    if (output >= weight.outputs) continue;
    const uint8_t* row = values + int64_t{output} * weight.inputs;
    for (int32_t k = 0; k < kStrip && strip * kStrip + k < weight.inputs; ++k) {
      const int32_t pair = k / 2 % 4;
      const int32_t word = k / 8 * 2 * kLanes + lane * 2 + k % 2;
      out[word * 2 + pair / 2] |= static_cast<uint8_t>((row[strip * kStrip + k] & 15) << (pair % 2 * 4));
    }
  }
}

void pack_header(const Weight& weight, const Plain& plain, int32_t panel, int32_t strip, uint16_t* out) {
  const int32_t blocks = weight.inputs / weight.block;
  for (int32_t part = 0; part < kStrip / weight.block; ++part) {
    const int32_t block = strip * (kStrip / weight.block) + part;
    if (block >= blocks) return;
    uint16_t* scales = out + part * kLanes * (weight.has_min ? 2 : 1);
    for (int32_t lane = 0; lane < kLanes && panel * kLanes + lane < weight.outputs; ++lane) {
      const int64_t from = int64_t{panel * kLanes + lane} * blocks + block;
      scales[lane] = plain.scales[from];
      if (weight.has_min) scales[kLanes + lane] = plain.minima[from];
    }
  }
}

}  // namespace

void pack(const Weight& weight, const Plain& plain, uint8_t* packed) {
  const int64_t header = header_bytes(weight.kind, weight.block, weight.has_min != 0);
  const int64_t bytes = header + value_bytes(weight.kind);
  const int32_t strips = (weight.inputs + kStrip - 1) / kStrip;
  for (int32_t panel = 0; panel * kLanes < weight.outputs; ++panel) {
    uint8_t* out = packed + panel * weight.panel_bytes;
    std::memset(out, 0, static_cast<size_t>(weight.panel_bytes));
    for (int32_t strip = 0; strip < strips; ++strip, out += bytes) {
      uint8_t* values = out + header;
      if (header != 0) pack_header(weight, plain, panel, strip, reinterpret_cast<uint16_t*>(out));
      switch (weight.kind) {
        case Kind::f32: pack_pairs(weight, static_cast<const float*>(plain.values), panel, strip, reinterpret_cast<float*>(values)); break;
        case Kind::f16:
        case Kind::bf16: pack_pairs(weight, static_cast<const uint16_t*>(plain.values), panel, strip, reinterpret_cast<uint16_t*>(values)); break;
        case Kind::q8: pack_pairs(weight, static_cast<const uint8_t*>(plain.values), panel, strip, values); break;
        case Kind::q4: pack_halves(weight, static_cast<const uint8_t*>(plain.values), panel, strip, values); break;
      }
    }
  }
}

}  // namespace tidemark
