// What a program is: the instructions of one model's step, and the step that they are run on.
//
// Mirrored field by field in program.py, which compares the sizes at load. All pointers are borrowed: Python
// keeps their tensors alive. Rows are the positions of a step, packed; a row's result never depends on other rows.
#pragma once

#include <cstdint>

namespace tidemark {

constexpr int kLanes = 16;       // outputs of a weight panel, keys of a cache lane group
constexpr int kSplit = 256;      // positions of a split of the context; fixed by position, never by the load
constexpr int kMaxThreads = 64;

enum class Op : int32_t { embed, norm, linear, heads, attention, gate, gather, softcap, route, experts, combine };

// Rows of activations. `plain`: `width` float32, padded with zeros to a multiple of 32. `split`: the same number
// of bytes, first all high bfloat16 parts, then all low ones (x = high + low), as the AMX kernels read them.
enum class Format : int32_t { plain, split };

struct Buffer {
  char* data;            // [rows, stride_bytes], 64-byte aligned
  int64_t stride_bytes;  // padded width × 4
  int32_t width;         // values of a row
  Format format;
};

// How a matrix's values are stored. Integers come in blocks with a scale each, and a minimum where `has_min`:
// value = scale × integer + minimum. q4 holds 0 … 15, q8 holds -128 … 127.
enum class Kind : int32_t { f32, f16, bf16, q8, q4 };

// A matrix [outputs, inputs], packed by `pack` into panels of 16 outputs; see pack.h for the layout.
struct Weight {
  const uint8_t* data;  // 64-byte aligned
  int64_t panel_bytes;
  int32_t outputs;      // as the model has it; panels are padded with zero weights
  int32_t inputs;       // as the model has it; padded with zero weights to a multiple of 32
  Kind kind;
  int32_t block;        // q8, q4: inputs that share a scale, 16 or 32
  int32_t has_min;
  int32_t reserved;
};

// One layer's cache: in each unit of the pool that the layer's block table names, a block of positions. K of a unit:
// [kv heads, block size / 16, dim pairs, 16 keys, 2] and V: [kv heads, block size / 16, 8 key pairs, dims, 2], for bf16 and
// int8; for f32 the pairs are apart: K [.., dims, 16 keys], V [.., 16 keys, dims]. `dim` is padded to a multiple of 16. Latent
// rows have no V of their own: it is the first values of K.
//
// int8 holds a head rotated, as rotate.inc says, queries are rotated as K is, and what is mixed is turned back: the padded
// head is cut into the largest powers of two that are left (80 into 64 and 16; a latent row into V and the rest, and each of
// these so), and each is multiplied with the Hadamard matrix of its size. For each (kv head, offset) V has a float32 scale,
// and K two bfloat16 in its place, an offset and the scale: value = scale × integer + offset. Of latent rows it is 0.
enum class CacheType : int32_t { f32, bf16, int8 };

struct Cache {
  char* keys;           // of unit 0
  char* values;         // null where latent, as value_scales
  float* key_scales;    // null but for int8
  float* value_scales;
  int64_t key_stride;   // bytes from one unit to the next
  int64_t value_stride;
  int64_t scale_stride;
  int32_t kv_heads;
  int32_t key_dim;      // as the model has it
  int32_t value_dim;
  int32_t block_size;   // positions; a multiple of 16
  CacheType type;
  int32_t latent;
  int32_t table;        // which of the step's block tables
  int32_t reserved;
};

// output = scale × row of the table named by the row's token id; or, `by_position`, output += the row of its position.
struct Embed {
  int32_t output;
  float scale;
  int32_t by_position;
  int32_t reserved;
  Weight table;         // [vocabulary, width]
};

enum class NormKind : int32_t { rms, layer, none };  // none: the row as it is

// output (=, or += where `accumulate`) norm(input) × weight + bias; over whole rows.
struct Norm {
  int32_t input, output;
  NormKind kind;
  float eps;
  int32_t accumulate;
  float scale;          // of the result, before it is accumulated
  const float* weight;  // [width], or null; what a model adds to it is added at load
  const float* bias;    // [width], or null
};

// output (=, or += where `accumulate`) scale × (input · weightᵀ + bias). `input` is split for Level::amx but for f32 weights.
struct Linear {
  int32_t input, output;
  int32_t accumulate;
  float scale;
  Weight weight;
  const float* bias;    // [outputs], or null
};

enum class Rotary : int32_t { none, half, interleaved };

// From the fused q, k, v rows to queries and the cache: norms over heads (or over all of q's and k's heads at
// once), rotary, scale; K and V are written in the cache's type at the row's position. Latent rows come without v, and
// where a layer reads another's rows there is q alone.
struct Heads {
  int32_t input;        // [rows, (heads × key dim) | (kv heads × key dim) | (kv heads × value dim)] plain
  int32_t output;       // [rows, heads × padded key dim] plain: queries, times `scale`, each head padded to 16
  int32_t heads;
  Rotary rotary;
  int32_t rotary_dim;   // leading values of a head that are turned
  NormKind norm_kind;
  float eps;
  float scale;
  int32_t norm_whole;   // 1: one norm over all heads of a row, weight [heads × dim]; 0: over each head, weight [dim]
  int32_t num_angles;   // rows of cos and sin
  const float* query_norm;  // or null
  const float* key_norm;
  const float* cos;     // [positions, rotary_dim / 2], times what the model scales them by
  const float* sin;
  int32_t shared;       // 1: the cache's rows are another layer's, which writes them
  int32_t reserved;
  Cache cache;
};

struct Attention {
  int32_t input;        // queries, as Heads writes them
  int32_t output;       // [rows, heads × value dim]
  int32_t heads;
  int32_t window;       // positions that a query sees, its own included; 0: all
  int32_t chunk;        // a query sees from the last multiple of it on; 0: no chunks
  float softcap;        // 0: none
  const float* sinks;   // [heads], or null
  Cache cache;
};

enum class Activation : int32_t { silu, gelu_tanh, gelu_erf, relu, relu_squared, clamped_swiglu };

// output = activation(gate) × up where `gated` (input [rows, 2 × width]: all gates, then all ups), else activation(input).
struct Gate {
  int32_t input, output;
  Activation activation;
  int32_t gated;
  int32_t per_row;      // rows of the buffers for each row of the step: 1, or the experts that each row chose
  float alpha, limit;   // clamped_swiglu: (up + 1) × gate × sigmoid(alpha × gate), both clamped
};

// output's row i = input's row logit_rows[i]; later instructions with `of_logits` see those rows alone.
struct Gather {
  int32_t input, output;
};

// logits = cap × tanh(logits / cap), in place.
struct Softcap {
  int32_t output;
  float cap;
};

enum class Scoring : int32_t { softmax, softmax_of_chosen, sigmoid };

// Chooses `chosen` of the router's scores for each row: ids and weights, best first, ties to the lowest id. A row and
// one of its choices are a pair; pairs are then put in the order of their experts.
struct Route {
  int32_t input;        // [rows, experts] plain
  int32_t experts, chosen;
  Scoring scoring;
  int32_t normalize;    // the chosen weights add up to 1
  float scale;
};

// One linear layer of all experts, each over the pairs that chose it. The first (`expand`) reads a pair's row, the
// later ones the pair; the output has a row for each pair, in the order of their experts.
struct Experts {
  int32_t input, output;
  int32_t experts, chosen;
  int32_t expand;
  int32_t reserved;
  const Weight* weights;       // [experts]
  const float* const* biases;  // [experts], or null
};

// output (=, or += where `accumulate`) scale × the sum of a row's pairs × their weights, best expert first.
struct Combine {
  int32_t input, output;
  int32_t chosen;
  int32_t accumulate;
  float scale;
};

struct Instruction {
  Op op;
  int32_t of_logits;    // 1: over the rows that need logits
  union {
    Embed embed;
    Norm norm;
    Linear linear;
    Heads heads;
    Attention attention;
    Gate gate;
    Gather gather;
    Softcap softcap;
    Route route;
    Experts experts;
    Combine combine;
  };
};

// One chunk of a sequence: rows [row, row + length) stand at positions [start, start + length).
struct Span {
  int32_t row, start, length;
  int32_t table;        // where block 0 of its block table is in Step::units; below 0 where the table begins later
};

struct Step {
  int32_t num_rows, num_spans, num_logit_rows;
  int32_t num_tables;        // block tables of each span
  const int32_t* ids;        // [rows]
  const int32_t* positions;  // [rows]
  const int32_t* slots;      // [tables, rows] unit × block size + offset
  const Span* spans;         // [tables, spans]
  const int32_t* units;      // block tables, one after the other
  const int32_t* logit_rows; // [logit rows]
};

struct Program {
  const Instruction* instructions;
  int32_t num_instructions;
  int32_t num_buffers;
  Buffer* buffers;           // of as many rows as the largest step has (× chosen for pairs)
  // What Route found, null without experts. A pair's number is row × chosen + which of the row's choices it is.
  int32_t* route_ids;        // [pairs] the expert
  float* route_weights;      // [pairs]
  int32_t* route_pairs;      // [pairs] pairs in the order of their experts, and of their numbers
  int32_t* route_places;     // [pairs] where in that order each pair stands
  int32_t* route_starts;     // [experts + 1] where in that order each expert's pairs begin
};

enum class Level : int32_t { avx2, avx512, amx };

}  // namespace tidemark
