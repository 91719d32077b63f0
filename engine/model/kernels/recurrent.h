// Layers that keep one state a sequence: a short convolution, and three rules by which a state is carried from position
// to position. Prompts and decoding alike go one position after the other, so that neither a state nor an output depends
// on how a prompt was cut, on what else is in the step, or on the number of threads.
//
// A layer's states are [slots, …] float32. A span begins with the state of its `source` slot and leaves the one behind
// its last position in `target`, which may be the same slot. No slot that a span writes is read or written by another.
// Mirrored field by field in recurrent.py.
#pragma once

#include <cstdint>

namespace tidemark {

class Pool;

struct StateSpan {
  int32_t row, length;  // rows [row, row + length), at least one
  int32_t source;       // below 0: zeros
  int32_t target;
};

// The state after `count` positions of a span, 1 … length, is also written to `slot`.
struct Checkpoint {
  int32_t span, count, slot;
};

struct StateStep {
  const StateSpan* spans;
  const Checkpoint* checkpoints;  // in the order of their spans, and of their counts
  int32_t num_spans, num_checkpoints;
};

// Some columns of rows of float32, which are `stride` floats apart.
struct Columns {
  const float* data;  // or null
  int64_t stride;
};

// output = activation(bias + the sum over taps of weight × the inputs up to here); each channel by itself. The state is
// the last `taps - 1` inputs, oldest first: [taps - 1, channels].
struct Convolution {
  Columns input;          // [rows, channels]
  float* output;        // [rows, channels]
  const float* weight;  // [taps, channels]
  const float* bias;    // [channels], or null
  float* states;
  int32_t channels, taps;
  int32_t silu;         // 1: activation is x × sigmoid(x); 0: none
  int32_t reserved;
  StateStep step;
};

// The selective scan of Mamba and Mamba-2. At each position, of each head and of its channels p and states n:
//   d = softplus(time + time_bias), within [time_min, time_max]
//   state[n, p] = exp(d × a) × state[n, p] + d × x[p] × b[n]
//   y[p] = (sum over n of state[n, p] × c[n] + skip × x[p]) × silu(gate[p])
// The state is [heads, states, dim].
struct Selection {
  Columns input;             // x [rows, heads × dim]
  Columns time;              // [rows, heads], or [rows, heads × dim] where `by_channel`
  Columns b, c;              // [rows, groups × states]; heads / groups neighbours share one
  Columns gate;              // [rows, heads × dim], or null
  float* output;           // [rows, heads × dim]
  const float* a;          // [heads], or [heads, states, dim] where `by_channel`
  const float* skip;       // [heads], or [heads × dim] where `by_channel`
  const float* time_bias;  // [heads], or null where `by_channel`
  float* states;
  int32_t heads, dim, num_states, groups;
  int32_t by_channel;
  float time_min, time_max;
  int32_t reserved;
  StateStep step;
};

// The gated delta rule. At each position, of each value head, with its key head's q and k brought to length 1:
//   state[k, v] = exp(a × softplus(time + time_bias)) × state[k, v]
//   delta[v] = sigmoid(rate) × (value[v] - sum over k of state[k, v] × key[k])
//   state[k, v] = state[k, v] + key[k] × delta[v]
//   y[v] = sum over k of state[k, v] × query[k] / √key dim
// The state is [value heads, key dim, value dim].
struct DeltaRule {
  Columns query, key;        // [rows, key heads × key dim]
  Columns value;             // [rows, value heads × value dim]
  Columns time, rate;        // [rows, value heads]
  float* output;           // [rows, value heads × value dim]
  const float* a;          // [value heads]
  const float* time_bias;  // [value heads]
  float* states;
  int32_t key_heads, value_heads, key_dim, value_dim;
  StateStep step;
};

// One unit of work of each kind: a span, and some channels or a head.
struct Recurrences {
  void (*convolve)(const Convolution&, int32_t unit, char* scratch);
  void (*select)(const Selection&, int32_t unit, char* scratch);
  void (*apply_delta_rule)(const DeltaRule&, int32_t unit, char* scratch);
};

constexpr int32_t kUnitChannels = 64;  // of a convolution

const Recurrences& avx2_recurrences();
const Recurrences& avx512_recurrences();
const Recurrences& amx_recurrences();

void convolve(Pool& pool, const Recurrences& kernels, const Convolution& convolution);
void select(Pool& pool, const Recurrences& kernels, const Selection& selection);
void apply_delta_rule(Pool& pool, const Recurrences& kernels, const DeltaRule& rule);

}  // namespace tidemark
