// From rows of logits to tokens and log-probabilities, without sorting a vocabulary.
//
// What top_k, top_p and min_p leave is found among candidates: the tokens from a logit on that surely is low enough. Sums are
// float64, in an order that the row alone decides.
#pragma once

#include <cstdint>

#include "program.h"

namespace tidemark {

class Pool;

struct Bias {
  int32_t token;
  float value;
};

// What is asked of one row, and the answer. Mirrored field by field in asks.py.
struct Ask {
  double temperature;   // 0: the largest logit, the first of equals
  double top_p, min_p;  // 1 and 0: all
  double number;        // in [0, 1): which of the weights is drawn
  int32_t top_k;        // 0: all
  int32_t chooses;      // 1: `token` is chosen; 0: it is given
  int32_t scores;       // 1: `logprob` and the best tokens are wanted, from the logits as they are
  int32_t num_top;      // at most the vocabulary's size
  float repetition, frequency, presence;  // penalties: 1, 0, 0 for none; of the tokens in `prompt` and `outputs`
  int32_t num_biases, num_banned, num_prompt, num_outputs;
  int32_t finite;       // answer: 0 where the largest logit is infinite or no number; then there are no others
  int32_t token;
  float logprob;
  const Bias* biases;
  const int32_t* banned;
  const int32_t* prompt;   // ids, as often as they come
  const int32_t* outputs;
  const uint32_t* mask;    // bit t % 32 of word t / 32: whether token t may be chosen; nullptr: all may
  int32_t* top_ids;        // answer: [num_top], best first, the lowest id of equals
  float* top_logprobs;
};

constexpr int32_t kBlock = 256;  // tokens that are weighed at once

// A logit weighs e to the power of (logit - highest) × sharpness.
struct Weighing {
  float highest;
  double sharpness;  // 1 / temperature
};

// What is done to the tokens of a row with vectors, for each level; equal bits on all.
struct Scans {
  // The largest of each block of tokens; returns whether all are numbers.
  bool (*peaks)(const float* logits, int32_t size, float* peaks);
  // The weights of at most a block; returns their sum.
  double (*weigh)(const float* logits, int32_t size, const Weighing& weighing, double* weights);
  // Which of at most a block are at least `floor`: one bit each.
  void (*reach)(const float* logits, int32_t size, float floor, uint64_t* bits);
  // At most a block as its words of a mask let it be seen: where there is no bit, -inf.
  void (*hide)(const float* logits, int32_t size, const uint32_t* mask, float* shown);
};

const Scans& avx2_scans();
const Scans& avx512_scans();
const Scans& amx_scans();

struct Logits {
  float* data;           // [rows, stride]; changed while a row is worked on, and put back
  int64_t stride;        // floats
  int32_t vocabulary;
  int32_t num_rows;
};

// Answers one ask for each row, rows side by side on the pool's threads.
void answer(Pool& pool, const Scans& scans, const Logits& logits, Ask* asks);

}  // namespace tidemark
