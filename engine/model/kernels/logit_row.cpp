#include "logit_row.h"

#include <functional>
#include <numeric>

namespace tidemark {
namespace {

// The first place up to which the weights add up to more than `target`; the last that weighs anything where rounding
// leaves the target just out of reach.
int32_t reach(const double* weights, int32_t count, double target) {
  double sum = 0.0;
  int32_t last = 0;
  for (int32_t place = 0; place < count && sum <= target; ++place) {
    sum += weights[place];
    if (weights[place] > 0.0) last = place;
  }
  return last;
}

}  // namespace

LogitRow::LogitRow(const Scans& scans, const float* logits, int32_t size)
    : scans_(scans), logits_(logits), size_(size), peaks_(static_cast<size_t>(blocks())) {
  numbers_ = scans_.peaks(logits_, size_, peaks_.data());
  highest_ = *std::max_element(peaks_.begin(), peaks_.end());
}

int32_t LogitRow::best() const {
  const int64_t block = std::find(peaks_.begin(), peaks_.end(), highest_) - peaks_.begin();
  const float* first = logits_ + std::min<int64_t>(block * kBlock, size_);
  return static_cast<int32_t>(std::find(first, logits_ + size_, highest_) - logits_) % size_;
}

float LogitRow::reached_by(int32_t count) const {
  if (count > blocks()) return kLowest;
  std::vector<float> peaks(peaks_);
  std::nth_element(peaks.begin(), peaks.begin() + (count - 1), peaks.end(), std::greater<>());
  return peaks[static_cast<size_t>(count - 1)];
}

double LogitRow::weight(const Weighing& weighing) const {
  const std::vector<double> sums = block_sums(weighing);
  return std::accumulate(sums.begin(), sums.end(), 0.0);
}

int32_t LogitRow::draw(const Weighing& weighing, double number) const {
  const std::vector<double> sums = block_sums(weighing);
  const double target = number * std::accumulate(sums.begin(), sums.end(), 0.0);
  const int32_t block = reach(sums.data(), blocks(), target);
  const double before = std::accumulate(sums.begin(), sums.begin() + block, 0.0);
  double weights[kBlock];
  weigh(logits_ + block * kBlock, length(block), weighing, weights);
  return block * kBlock + reach(weights, length(block), target - before);
}

std::vector<double> LogitRow::block_sums(const Weighing& weighing) const {
  double weights[kBlock];
  std::vector<double> sums;
  for (int32_t block = 0; block < blocks(); ++block)
    sums.push_back(scans_.weigh(logits_ + block * kBlock, length(block), weighing, weights));
  return sums;
}

int32_t LogitRow::reaching(int32_t block, float floor, int32_t* tokens) const {
  uint64_t bits[kBlock / 64];
  scans_.reach(logits_ + block * kBlock, length(block), floor, bits);
  int32_t count = 0;
  for (int32_t word = 0; word < kBlock / 64; ++word)
    for (uint64_t left = bits[word]; left != 0; left &= left - 1)
      tokens[count++] = block * kBlock + word * 64 + __builtin_ctzll(left);
  return count;
}

}  // namespace tidemark
