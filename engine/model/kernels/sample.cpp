#include "sample.h"

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <vector>

#include "pool.h"

namespace tidemark {
namespace {

constexpr float kLowest = -std::numeric_limits<float>::infinity();

// A number for each float in the same order; -0 and 0 have two, which no sum of logits tells apart.
uint32_t key_of(float x) {
  uint32_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  return bits >> 31 != 0 ? ~bits : bits | 0x80000000u;
}

float value_of(uint32_t key) {
  const uint32_t bits = key >> 31 != 0 ? key & 0x7fffffffu : ~key;
  float x;
  std::memcpy(&x, &bits, sizeof x);
  return x;
}

// One row of logits, and the largest of each of its blocks.
class Row {
 public:
  Row(const Scans& scans, const float* logits, int32_t size)
      : scans_(scans), logits_(logits), size_(size), peaks_(static_cast<size_t>(blocks())) {
    numbers_ = scans_.peaks(logits_, size_, peaks_.data());
    highest_ = *std::max_element(peaks_.begin(), peaks_.end());
  }

  bool finite() const { return numbers_ && std::isfinite(highest_); }
  float highest() const { return highest_; }
  int32_t size() const { return size_; }
  float operator[](int32_t token) const { return logits_[token]; }

  // The first of the largest.
  int32_t best() const {
    const auto block = std::find(peaks_.begin(), peaks_.end(), highest_) - peaks_.begin();
    const float* first = logits_ + block * kBlock;
    return static_cast<int32_t>(std::find(first, logits_ + size_, highest_) - logits_);
  }

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

  // A logit that at least `count` tokens reach, close to the highest such where `count` is small.
  float reached_by(int32_t count) const {
    if (count > blocks()) return kLowest;
    std::vector<float> peaks(peaks_);
    std::nth_element(peaks.begin(), peaks.begin() + (count - 1), peaks.end(), std::greater<>());
    return peaks[static_cast<size_t>(count - 1)];
  }

  double sum(const Weighing& weighing) const {
    double total = 0.0;
    double weights[kBlock];
    for (int32_t block = 0; block < blocks(); ++block) total += block_sum(block, weighing, weights);
    return total;
  }

  // The first token up to which the weights add up to more than `target`, which is below their sum.
  int32_t reach(const Weighing& weighing, double target) const {
    double before = 0.0;
    double weights[kBlock];
    for (int32_t block = 0; block < blocks(); ++block) {
      const double sum = block_sum(block, weighing, weights);
      if (before + sum > target) return block * kBlock + reach_within(weights, length(block), target - before);
      before += sum;
    }
    return size_ - 1;
  }

  void weigh(const float* logits, int32_t count, const Weighing& weighing, double* weights) const {
    scans_.weigh(logits, count, weighing, weights);
  }

 private:
  int32_t blocks() const { return (size_ + kBlock - 1) / kBlock; }
  int32_t length(int32_t block) const { return std::min(kBlock, size_ - block * kBlock); }

  int32_t reaching(int32_t block, float floor, int32_t* tokens) const {
    uint64_t bits[kBlock / 64];
    scans_.reach(logits_ + block * kBlock, length(block), floor, bits);
    int32_t count = 0;
    for (int32_t word = 0; word < kBlock / 64; ++word)
      for (uint64_t left = bits[word]; left != 0; left &= left - 1)
        tokens[count++] = block * kBlock + word * 64 + __builtin_ctzll(left);
    return count;
  }

  double block_sum(int32_t block, const Weighing& weighing, double* weights) const {
    if (peaks_[static_cast<size_t>(block)] < weighing.cut) return 0.0;
    return scans_.weigh(logits_ + block * kBlock, length(block), weighing, weights);
  }

  // Token by token; the last that weighs anything where rounding leaves the target just out of reach.
  static int32_t reach_within(const double* weights, int32_t size, double target) {
    double sum = 0.0;
    int32_t last = 0;
    for (int32_t token = 0; token < size && sum <= target; ++token) {
      sum += weights[token];
      if (weights[token] > 0.0) last = token;
    }
    return last;
  }

  const Scans& scans_;
  const float* logits_;
  int32_t size_;
  std::vector<float> peaks_;
  float highest_ = 0.0f;
  bool numbers_ = true;
};

// Measures tokens by how many they are, or by what they weigh.
void count_each(const float*, int32_t count, double* measures) { std::fill(measures, measures + count, 1.0); }

struct Digits {
  int shift, width;
};

// The bits of a key in three digits: each round of `edge_of` finds one.
constexpr Digits kDigits[] = {{21, 11}, {10, 11}, {0, 10}};

// The largest logit such that the tokens from it on measure `wanted` or more; the lowest from `floor` on where all do not.
// A round adds up measures by one digit, of those tokens alone whose digits before are the ones found.
template <typename Measure>
float edge_of(const Row& row, float floor, double wanted, Measure measure) {
  uint32_t found = 0;
  double above = 0.0;
  std::vector<double> sums(2048);
  double measures[kBlock];
  for (const Digits& digits : kDigits) {
    std::fill(sums.begin(), sums.end(), 0.0);
    uint32_t lowest = UINT32_MAX;
    row.each_from(floor, [&](const int32_t*, const float* logits, int32_t count) {
      measure(logits, count, measures);
      for (int32_t i = 0; i < count; ++i) {
        const uint32_t key = key_of(logits[i]) >> digits.shift;
        if (static_cast<uint64_t>(key) >> digits.width != found) continue;
        lowest = std::min(lowest, key);
        sums[key - (found << digits.width)] += measures[i];
      }
    });
    const uint32_t base = found << digits.width;
    found = base | ((1u << digits.width) - 1);
    for (; found > lowest && above + sums[found - base] < wanted; --found) above += sums[found - base];
    floor = std::max(floor, value_of(found << digits.shift));
  }
  return value_of(found);
}

// ---- what a request changes in its row's logits

class Changes {
 public:
  Changes(float* logits, const Ask& ask, int32_t size) : logits_(logits) {
    for (int32_t i = 0; i < ask.num_biases; ++i) change(ask.biases[i].token, logits[ask.biases[i].token] + ask.biases[i].value);
    for (int32_t i = 0; i < ask.num_banned; ++i) change(ask.banned[i], kLowest);
    penalize(ask, size);
  }
  ~Changes() {
    for (auto entry = saved_.rbegin(); entry != saved_.rend(); ++entry) logits_[entry->token] = entry->value;
  }
  Changes(const Changes&) = delete;
  Changes& operator=(const Changes&) = delete;

  bool none() const { return saved_.empty(); }

 private:
  void change(int32_t token, float value) {
    saved_.push_back({token, logits_[token]});
    logits_[token] = value;
  }

  // What was seen is divided, what was put out is lowered.
  void penalize(const Ask& ask, int32_t size) {
    static thread_local std::vector<int32_t> times;  // of each token among the outputs; all zero between calls
    if (ask.num_prompt + ask.num_outputs == 0) return;
    if (times.size() < static_cast<size_t>(size)) times.resize(static_cast<size_t>(size));
    for (int32_t i = 0; i < ask.num_prompt; ++i) times[static_cast<size_t>(ask.prompt[i])] = kSeen;
    for (int32_t i = 0; i < ask.num_outputs; ++i) {
      int32_t& count = times[static_cast<size_t>(ask.outputs[i])];
      count = (count | kSeen) + 1;
    }
    for (int32_t i = 0; i < ask.num_prompt; ++i) penalize_once(ask, ask.prompt[i], times);
    for (int32_t i = 0; i < ask.num_outputs; ++i) penalize_once(ask, ask.outputs[i], times);
  }

  void penalize_once(const Ask& ask, int32_t token, std::vector<int32_t>& times) {
    const int32_t count = times[static_cast<size_t>(token)];
    if (count == 0) return;
    times[static_cast<size_t>(token)] = 0;
    const float logit = logits_[token];
    const float divided = logit > 0.0f ? logit / ask.repetition : logit * ask.repetition;
    const float put_out = static_cast<float>(count & ~kSeen);
    change(token, divided - ask.frequency * put_out - (put_out > 0.0f ? ask.presence : 0.0f));
  }

  static constexpr int32_t kSeen = 1 << 30;

  float* logits_;
  std::vector<Bias> saved_;
};

// ---- the answer

constexpr double kCoolest = 1e-300;  // a lower temperature has no finite inverse

// A logit such that all below it can't weigh more than `left_out`, however many they are.
float floor_of(const Row& row, const Weighing& weighing, double left_out) {
  const double depth = std::log(row.size() / left_out) + 1e-6;  // more than rounding to float32 takes
  return static_cast<float>(row.highest() - depth / weighing.sharpness);
}

// The lowest logit of the fewest best tokens that weigh `share` of all.
float nucleus_edge(const Row& row, const Weighing& weighing, double share) {
  const double total = row.sum(weighing);
  const float floor = std::max(weighing.cut, floor_of(row, weighing, (1.0 - share) * total));
  const double wanted = std::max(share * total, DBL_MIN);  // of no share the best token is left
  return edge_of(row, floor, wanted, [&](const float* logits, int32_t count, double* weights) { row.weigh(logits, count, weighing, weights); });
}

// top_k, top_p, min_p: each sets a lower bound.
Weighing weighing_of(const Row& row, const Ask& ask) {
  Weighing weighing{row.highest(), kLowest, 1.0 / std::max(ask.temperature, kCoolest), 0.0};
  if (ask.top_k > 0 && ask.top_k < row.size()) weighing.cut = edge_of(row, row.reached_by(ask.top_k), ask.top_k, count_each);
  if (ask.top_p < 1.0) weighing.cut = nucleus_edge(row, weighing, ask.top_p);
  weighing.least = ask.min_p;
  return weighing;
}

int32_t choose(const Row& row, const Ask& ask) {
  if (ask.temperature == 0.0 || !row.finite()) return row.best();
  const Weighing weighing = weighing_of(row, ask);
  return row.reach(weighing, ask.number * row.sum(weighing));
}

// The best tokens, best first: all above the edge, and of those at it the lowest ids.
std::vector<Bias> best_of(const Row& row, int32_t count) {
  std::vector<Bias> best, at_edge;
  if (count == 0) return best;
  const float edge = edge_of(row, row.reached_by(count), count, count_each);
  row.each_from(edge, [&](const int32_t* tokens, const float* logits, int32_t num) {
    for (int32_t i = 0; i < num; ++i) (logits[i] > edge ? best : at_edge).push_back({tokens[i], logits[i]});
  });
  std::stable_sort(best.begin(), best.end(), [](const Bias& a, const Bias& b) { return a.value > b.value; });
  at_edge.resize(static_cast<size_t>(count) - best.size());
  best.insert(best.end(), at_edge.begin(), at_edge.end());
  return best;
}

void score(const Row& row, Ask& ask) {
  const double shift = std::log(row.sum({row.highest(), kLowest, 1.0, 0.0}));
  const auto logprob = [&](float logit) { return static_cast<float>(static_cast<double>(logit) - row.highest() - shift); };
  ask.logprob = logprob(row[ask.token]);
  const std::vector<Bias> best = best_of(row, ask.num_top);
  for (size_t place = 0; place < best.size(); ++place) {
    ask.top_ids[place] = best[place].token;
    ask.top_logprobs[place] = logprob(best[place].value);
  }
}

void answer_row(const Scans& scans, float* logits, int32_t size, Ask& ask) {
  Row row(scans, logits, size);
  ask.finite = row.finite() ? 1 : 0;
  if (ask.finite == 0) return;
  if (ask.chooses != 0) {
    const Changes changes(logits, ask, size);
    ask.token = changes.none() ? choose(row, ask) : choose(Row(scans, logits, size), ask);
  }
  if (ask.scores != 0) score(row, ask);
}

struct Work {
  const Scans& scans;
  const Logits& logits;
  Ask* asks;
};

void answer_chunk(void* argument, int32_t row, char*) {
  const Work& work = *static_cast<const Work*>(argument);
  answer_row(work.scans, work.logits.data + row * work.logits.stride, work.logits.vocabulary, work.asks[row]);
}

}  // namespace

void answer(Pool& pool, const Scans& scans, const Logits& logits, Ask* asks) {
  Work work{scans, logits, asks};
  pool.each(logits.num_rows, answer_chunk, &work);
}

}  // namespace tidemark
