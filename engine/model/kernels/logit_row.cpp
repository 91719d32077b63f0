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
    : scans_(scans), logits_(logits), mask_(nullptr), size_(size), peaks_(static_cast<size_t>(blocks())) {
  numbers_ = scans_.peaks(logits_, size_, peaks_.data());
  highest_ = *std::max_element(peaks_.begin(), peaks_.end());
}

LogitRow::LogitRow(const LogitRow& all, const uint32_t* mask)
    : scans_(all.scans_), logits_(all.logits_), mask_(mask), size_(all.size_), peaks_(all.peaks_), numbers_(true) {
  float room[kBlock];
  for (int32_t number = 0; number < blocks(); ++number) {
    const float* logits = shown(number, room);
    if (logits == room || !all.numbers_) numbers_ &= scans_.peaks(logits, length(number), &peak(number));
  }
  highest_ = *std::max_element(peaks_.begin(), peaks_.end());
}

int32_t LogitRow::best() const {
  float room[kBlock];
  const auto number = static_cast<int32_t>(std::find(peaks_.begin(), peaks_.end(), highest_) - peaks_.begin());
  if (number == blocks()) return 0;
  const float* first = shown(number, room);
  return number * kBlock + static_cast<int32_t>(std::find(first, first + length(number), highest_) - first);
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
  float room[kBlock];
  weigh(shown(block, room), length(block), weighing, weights);
  return block * kBlock + reach(weights, length(block), target - before);
}

std::vector<double> LogitRow::block_sums(const Weighing& weighing) const {
  double weights[kBlock];
  float room[kBlock];
  std::vector<double> sums(peaks_.size());
  for (int32_t number = 0; number < blocks(); ++number)
    if (peaks_[static_cast<size_t>(number)] > kLowest)  // the others weigh nothing
      sums[static_cast<size_t>(number)] = scans_.weigh(shown(number, room), length(number), weighing, weights);
  return sums;
}

const float* LogitRow::shown(int32_t block, float* room) const {
  const float* logits = logits_ + block * kBlock;
  if (mask_ == nullptr) return logits;
  const uint32_t* words = mask_ + block * (kBlock / 32);
  const int32_t whole = length(block) / 32;
  if (length(block) % 32 == 0 && std::all_of(words, words + whole, [](uint32_t word) { return word == ~0u; })) return logits;
  scans_.hide(logits, length(block), words, room);
  return room;
}

int32_t LogitRow::reaching(int32_t block, float floor, int32_t* tokens) const {
  uint64_t bits[kBlock / 64];
  float room[kBlock];
  scans_.reach(shown(block, room), length(block), floor, bits);
  int32_t count = 0;
  for (int32_t word = 0; word < kBlock / 64; ++word)
    for (uint64_t left = bits[word]; left != 0; left &= left - 1)
      tokens[count++] = block * kBlock + word * 64 + __builtin_ctzll(left);
  return count;
}

}  // namespace tidemark
