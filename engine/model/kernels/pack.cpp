#include "pack.h"

#include <cstring>

namespace tidemark {
namespace {

// Writes one block of inputs, pair by pair, the 16 outputs of a pair side by side.
template <typename T>
void pack_pairs(const Weight& weight, const void* values, int32_t panel, int32_t first, uint8_t* out) {
  T* pairs = reinterpret_cast<T*>(out);
  const int32_t left = weight.inputs - first;
  const int32_t count = left < block_inputs(weight) ? left : block_inputs(weight);
  for (int32_t lane = 0; lane < kLanes && panel * kLanes + lane < weight.outputs; ++lane) {
    const T* row = static_cast<const T*>(values) + int64_t{panel * kLanes + lane} * weight.inputs + first;
    for (int32_t k = 0; k < count; ++k) pairs[(k / 2 * kLanes + lane) * 2 + k % 2] = row[k];
  }
}

// Each word of an output's even or odd inputs holds four pairs' values, the first in the lowest bits.
void pack_words(const Weight& weight, const void* values, int32_t panel, int32_t first, uint8_t* out) {
  uint16_t* words = reinterpret_cast<uint16_t*>(out);
  for (int32_t lane = 0; lane < kLanes && panel * kLanes + lane < weight.outputs; ++lane) {
    const uint8_t* row = static_cast<const uint8_t*>(values) + int64_t{panel * kLanes + lane} * weight.inputs + first;
    for (int32_t k = 0; k < weight.block; ++k)
      words[(k / 8 * kLanes + lane) * 2 + k % 2] |= static_cast<uint16_t>((row[k] & 15) << k / 2 % 4 * 4);
  }
}

void pack_scales(const Weight& weight, const Plain& plain, int32_t panel, int32_t block, uint8_t* out) {
  uint16_t* scales = reinterpret_cast<uint16_t*>(out);
  for (int32_t lane = 0; lane < kLanes && panel * kLanes + lane < weight.outputs; ++lane) {
    const int64_t from = int64_t{panel * kLanes + lane} * (weight.inputs / weight.block) + block;
    scales[lane] = plain.scales[from];
    if (weight.has_min != 0) scales[kLanes + lane] = plain.minima[from];
  }
}

void pack_block(const Weight& weight, const Plain& plain, int32_t panel, int32_t block, uint8_t* out) {
  const int32_t first = block * block_inputs(weight);
  uint8_t* values = out + scale_bytes(weight.kind, weight.has_min != 0);
  if (has_scales(weight.kind)) pack_scales(weight, plain, panel, block, out);
  switch (weight.kind) {
    case Kind::f32: return pack_pairs<float>(weight, plain.values, panel, first, values);
    case Kind::f16:
    case Kind::bf16: return pack_pairs<uint16_t>(weight, plain.values, panel, first, values);
    case Kind::q8: return pack_pairs<uint8_t>(weight, plain.values, panel, first, values);
    case Kind::q4: return pack_words(weight, plain.values, panel, first, values);
  }
}

}  // namespace

void pack(const Weight& weight, const Plain& plain, uint8_t* packed) {
  std::memset(packed, 0, static_cast<size_t>((weight.outputs + kLanes - 1) / kLanes * weight.panel_bytes));
  const int32_t blocks = (weight.inputs + block_inputs(weight) - 1) / block_inputs(weight);
  for (int32_t panel = 0; panel * kLanes < weight.outputs; ++panel)
    for (int32_t block = 0; block < blocks; ++block)
      pack_block(weight, plain, panel, block, packed + panel * weight.panel_bytes + block * block_bytes(weight));
}

}  // namespace tidemark
