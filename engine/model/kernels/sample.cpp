#include "sample.h"

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

#include "pool.h"

namespace tidemark {
namespace {

constexpr float kLowest = -std::numeric_limits<float>::infinity();

struct Candidate {
  int32_t token;
  float logit;
  double weight;
};

struct Measured {
  float logit;
  double measure;
};

// What a thread keeps from row to row, since large memory is slow to get: as much as its largest row needed.
struct Room {
  std::vector<Candidate> candidates;
  std::vector<Measured> items;
  std::vector<int32_t> times;  // of each token among the outputs; all zero between rows
};

thread_local Room room;

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

  double weigh(const float* logits, int32_t count, const Weighing& weighing, double* weights) const {
    return scans_.weigh(logits, count, weighing, weights);
  }

  // The sum of each block's weights.
  std::vector<double> block_sums(const Weighing& weighing) const {
    double weights[kBlock];
    std::vector<double> sums;
    for (int32_t block = 0; block < blocks(); ++block)
      sums.push_back(weigh(logits_ + block * kBlock, length(block), weighing, weights));
    return sums;
  }

  // The first token up to which the weights add up to more than `number` of their sum.
  int32_t draw(const Weighing& weighing, double number) const;

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

  const Scans& scans_;
  const float* logits_;
  int32_t size_;
  std::vector<float> peaks_;
  float highest_ = 0.0f;
  bool numbers_ = true;
};

double sum_of(const std::vector<double>& values) { return std::accumulate(values.begin(), values.end(), 0.0); }

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

int32_t Row::draw(const Weighing& weighing, double number) const {
  const std::vector<double> sums = block_sums(weighing);
  const double target = number * sum_of(sums);
  const int32_t block = reach(sums.data(), blocks(), target);
  const double before = std::accumulate(sums.begin(), sums.begin() + block, 0.0);
  double weights[kBlock];
  weigh(logits_ + block * kBlock, length(block), weighing, weights);
  return block * kBlock + reach(weights, length(block), target - before);
}

// ---- which tokens are left

// Items laid in buckets of equal width, the highest logits first. Nothing here branches on a logit: that is a matter of chance.
class Buckets {
 public:
  explicit Buckets(const std::vector<Measured>& items) {
    float high = kLowest, low = -kLowest;
    for (const Measured& item : items) {
      high = std::max(high, item.logit);
      low = std::min(low, item.logit);
    }
    high_ = high;
    per_logit_ = low < high ? (kBuckets - 1) / (high_ - low) : 0.0;
    last_ = of(low);
    for (const Measured& item : items) sums_[of(item.logit)] += item.measure;
  }

  int32_t of(float logit) const { return static_cast<int32_t>((high_ - logit) * per_logit_); }
  bool single() const { return per_logit_ == 0.0; }

  // The bucket in which the measure is reached, the last if in none; `above` gains what lies before.
  int32_t reach(double wanted, double* above) const {
    int32_t bucket = 0;
    for (; bucket < last_ && *above + sums_[bucket] < wanted; ++bucket) *above += sums_[bucket];
    return bucket;
  }

 private:
  static constexpr int32_t kBuckets = 1024;

  double high_, per_logit_;
  int32_t last_;
  double sums_[kBuckets] = {};
};

void keep_bucket(std::vector<Measured>& items, const Buckets& buckets, int32_t bucket) {
  size_t kept = 0;
  for (const Measured item : items) {
    items[kept] = item;
    kept += buckets.of(item.logit) == bucket ? 1 : 0;
  }
  items.resize(kept);
}

// The largest logit such that the items from it on measure `wanted` or more; -inf where all together do not.
float edge_of(std::vector<Measured>& items, double wanted) {
  constexpr size_t kFew = 64;
  double above = 0.0, all = 0.0;
  for (const Measured& item : items) all += item.measure;
  if (all < wanted) return kLowest;
  while (items.size() > kFew) {
    const Buckets buckets(items);
    if (buckets.single()) return items.front().logit;
    keep_bucket(items, buckets, buckets.reach(wanted, &above));
  }
  std::sort(items.begin(), items.end(), [](const Measured& a, const Measured& b) { return a.logit > b.logit; });
  for (const Measured& item : items)
    if ((above += item.measure) >= wanted) return item.logit;
  return items.empty() ? kLowest : items.back().logit;
}

// Tokens that may be drawn, in the order of their ids; one object a thread at a time.
class Candidates {
 public:
  Candidates(const Row& row, const Weighing& weighing, float floor) : all_(room.candidates) {
    double weights[kBlock];
    all_.clear();
    row.each_from(std::max(floor, -FLT_MAX), [&](const int32_t* tokens, const float* logits, int32_t count) {
      row.weigh(logits, count, weighing, weights);
      const size_t before = all_.size();
      all_.resize(before + static_cast<size_t>(count));
      for (int32_t i = 0; i < count; ++i) all_[before + static_cast<size_t>(i)] = {tokens[i], logits[i], weights[i]};
    });
  }

  double weight() const {
    return std::accumulate(all_.begin(), all_.end(), 0.0, [](double sum, const Candidate& one) { return sum + one.weight; });
  }

  // The lowest logit of the `count` best, and of the fewest best that weigh `weight`.
  float edge_of_count(int32_t count) const {
    return edge([](const Candidate&) { return 1.0; }, count);
  }
  float edge_of_weight(double weight) const {
    return edge([](const Candidate& one) { return one.weight; }, weight);
  }

  // The others weigh nothing any more.
  void keep_from(float logit) {
    for (Candidate& one : all_) one.weight *= one.logit < logit ? 0.0 : 1.0;
  }
  void keep_heavy(double weight) {
    for (Candidate& one : all_) one.weight *= one.weight < weight ? 0.0 : 1.0;
  }

  int32_t draw(double number) const {
    const double target = number * weight();
    double sum = 0.0;
    int32_t last = 0;
    for (const Candidate& one : all_) {
      sum += one.weight;
      last = one.weight > 0.0 ? one.token : last;
      if (sum > target) break;
    }
    return last;
  }

 private:
  template <typename Measure>
  float edge(Measure measure, double wanted) const {
    std::vector<Measured>& items = room.items;
    items.resize(all_.size());
    std::transform(all_.begin(), all_.end(), items.begin(), [=](const Candidate& one) { return Measured{one.logit, measure(one)}; });
    return edge_of(items, wanted);
  }

  std::vector<Candidate>& all_;
};

// ---- what a request changes in its row's logits

class Changes {
 public:
  Changes(float* logits, const Ask& ask, int32_t size) : logits_(logits) {
    for (int32_t i = 0; i < ask.num_biases; ++i) change(ask.biases[i].token, logits[ask.biases[i].token] + ask.biases[i].value);
    for (int32_t i = 0; i < ask.num_banned; ++i)
      if (ask.banned[i] < size) change(ask.banned[i], kLowest);  // a tokenizer's end may lie beyond the model's vocabulary
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
    std::vector<int32_t>& times = room.times;
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
constexpr double kSlack = 1e-6;      // more than rounding to float32 takes

// A logit such that any token below it weighs less than `weight`.
float floor_of(const Weighing& weighing, double weight) {
  return static_cast<float>(weighing.highest + (std::log(weight) - kSlack) / weighing.sharpness);
}

// Draws from what top_k, top_p and min_p leave.
class Draw {
 public:
  Draw(const Row& row, const Ask& ask) : row_(row), ask_(ask), weighing_{row.highest(), 1.0 / std::max(ask.temperature, kCoolest)} {}

  int32_t token() const {
    if (!by_count() && ask_.top_p >= 1.0 && ask_.min_p <= 0.0) return row_.draw(weighing_, ask_.number);
    const double total = by_count() || ask_.top_p >= 1.0 ? 0.0 : sum_of(row_.block_sums(weighing_));
    Candidates left(row_, weighing_, floor(total));
    if (by_count()) left.keep_from(left.edge_of_count(ask_.top_k));
    if (ask_.top_p < 1.0) left.keep_from(left.edge_of_weight(ask_.top_p * (by_count() ? left.weight() : total)));
    left.keep_heavy(ask_.min_p);
    return left.draw(ask_.number);
  }

 private:
  bool by_count() const { return ask_.top_k > 0 && ask_.top_k < row_.size(); }

  // A logit that is low enough for all that may be left; all tokens below it weigh less than top_p leaves out of `total`.
  float floor(double total) const {
    if (by_count()) return row_.reached_by(ask_.top_k);
    return floor_of(weighing_, ask_.top_p < 1.0 ? (1.0 - ask_.top_p) * total / row_.size() : ask_.min_p);
  }

  const Row& row_;
  const Ask& ask_;
  Weighing weighing_;
};

int32_t choose(const Row& row, const Ask& ask) {
  return ask.temperature == 0.0 || !row.finite() ? row.best() : Draw(row, ask).token();
}

struct Listed {
  int32_t token;
  float logit;
};

// The best tokens, best first: all above the edge, and of those at it the lowest ids.
std::vector<Listed> best_of(const Row& row, int32_t count) {
  std::vector<Listed> best, at_edge;
  if (count == 0) return best;
  const float edge = Candidates(row, {row.highest(), 1.0}, row.reached_by(count)).edge_of_count(count);
  row.each_from(edge, [&](const int32_t* tokens, const float* logits, int32_t num) {
    for (int32_t i = 0; i < num; ++i) (logits[i] > edge ? best : at_edge).push_back({tokens[i], logits[i]});
  });
  std::stable_sort(best.begin(), best.end(), [](const Listed& a, const Listed& b) { return a.logit > b.logit; });
  best.insert(best.end(), at_edge.begin(), at_edge.begin() + (count - static_cast<int32_t>(best.size())));
  return best;
}

void score(const Row& row, Ask& ask) {
  const double shift = std::log(sum_of(row.block_sums({row.highest(), 1.0})));
  const auto logprob = [&](float logit) { return static_cast<float>(static_cast<double>(logit) - row.highest() - shift); };
  ask.logprob = logprob(row[ask.token]);
  const std::vector<Listed> best = best_of(row, ask.num_top);
  for (size_t place = 0; place < best.size(); ++place) {
    ask.top_ids[place] = best[place].token;
    ask.top_logprobs[place] = logprob(best[place].logit);
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
