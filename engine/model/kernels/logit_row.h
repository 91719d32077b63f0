// One row of logits, read block by block.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "sample.h"

namespace tidemark {

constexpr float kLowest = -std::numeric_limits<float>::infinity();

class LogitRow {
 public:
  LogitRow(const Scans& scans, const float* logits, int32_t size);

  // The same row as a mask lets it be seen: any other token's logit is -inf.
  LogitRow(const LogitRow& all, const uint32_t* mask);

  bool finite() const { return numbers_ && std::isfinite(highest_); }
  float highest() const { return highest_; }
  int32_t size() const { return size_; }
  float operator[](int32_t token) const { return logits_[token]; }  // whether the mask has it or not

  // The first of the largest; of a row whose largest is no number, the first.
  int32_t best() const;

  // A logit that at least `count` tokens reach, close to the highest such where `count` is small.
  float reached_by(int32_t count) const;

  // The weights of at most a block of logits.
  void weigh(const float* logits, int32_t count, const Weighing& weighing, double* weights) const {
    scans_.weigh(logits, count, weighing, weights);
  }

  double weight(const Weighing& weighing) const;

  // The first token up to which the weights add up to more than `number` of their sum.
  int32_t draw(const Weighing& weighing, double number) const;

  // Calls visit(tokens, logits, count) with those of each block that are at least `floor`, in the order of the ids.
  template <typename Visit>
  void each_from(float floor, Visit visit) const {
    int32_t tokens[kBlock];
    float logits[kBlock];
    for (int32_t block = 0; block < blocks(); ++block) {
      if (peaks_[static_cast<size_t>(block)] < floor) continue;
      const int32_t count = reaching(block, floor, tokens);
      for (int32_t i = 0; i < count; ++i) logits[i] = logits_[tokens[i]];
      visit(tokens, logits, count);
    }
  }

 private:
  int32_t blocks() const { return (size_ + kBlock - 1) / kBlock; }
  int32_t length(int32_t block) const { return std::min(kBlock, size_ - block * kBlock); }
  float& peak(int32_t block) { return peaks_[static_cast<size_t>(block)]; }
  // A block's logits: where they lie, or in `room` if some of them are hidden.
  const float* shown(int32_t block, float* room) const;
  int32_t reaching(int32_t block, float floor, int32_t* tokens) const;
  std::vector<double> block_sums(const Weighing& weighing) const;

  const Scans& scans_;
  const float* logits_;
  const uint32_t* mask_;  // nullptr: all may be chosen
  int32_t size_;
  std::vector<float> peaks_;  // the largest of each block
  float highest_;
  bool numbers_;
};

}  // namespace tidemark
