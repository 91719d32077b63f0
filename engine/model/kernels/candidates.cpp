#include "candidates.h"

#include <cfloat>

namespace tidemark {
namespace {

struct Measured {
  float logit;
  double measure;
};

// What a thread keeps from row to row, since large memory is slow to get: as much as its largest row needed.
struct Room {
  std::vector<Candidate> candidates;
  std::vector<Measured> items;
};

thread_local Room room;

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

// The edge of all candidates by a measure.
template <typename Measure>
float edge_by(const std::vector<Candidate>& all, double wanted, Measure measure) {
  std::vector<Measured>& items = room.items;
  items.resize(all.size());
  std::transform(all.begin(), all.end(), items.begin(), [=](const Candidate& one) { return Measured{one.logit, measure(one)}; });
  return edge_of(items, wanted);
}

}  // namespace

Candidates::Candidates(const LogitRow& row, const Weighing& weighing, float floor) : all_(room.candidates) {
  double weights[kBlock];
  all_.clear();
  row.each_from(std::max(floor, -FLT_MAX), [&](const int32_t* tokens, const float* logits, int32_t count) {
    row.weigh(logits, count, weighing, weights);
    const size_t before = all_.size();
    all_.resize(before + static_cast<size_t>(count));
    for (int32_t i = 0; i < count; ++i) all_[before + static_cast<size_t>(i)] = {tokens[i], logits[i], weights[i]};
  });
}

double Candidates::weight() const {
  double sum = 0.0;
  for (const Candidate& one : all_) sum += one.weight;
  return sum;
}

float Candidates::edge_of_count(int32_t count) const {
  return edge_by(all_, count, [](const Candidate&) { return 1.0; });
}

float Candidates::edge_of_weight(double weight) const {
  return edge_by(all_, weight, [](const Candidate& one) { return one.weight; });
}

void Candidates::keep_from(float logit) {
  for (Candidate& one : all_) one.weight *= one.logit < logit ? 0.0 : 1.0;
}

void Candidates::keep_heavy(double weight) {
  for (Candidate& one : all_) one.weight *= one.weight < weight ? 0.0 : 1.0;
}

int32_t Candidates::draw(double number) const {
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

}  // namespace tidemark
