#include "sample.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "candidates.h"
#include "logit_row.h"
#include "pool.h"

namespace tidemark {
namespace {

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
    static thread_local std::vector<int32_t> times;  // of each token among the outputs; all zero between rows
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
  Draw(const LogitRow& row, const Ask& ask) : row_(row), ask_(ask), weighing_{row.highest(), 1.0 / std::max(ask.temperature, kCoolest)} {}

  int32_t token() const {
    if (!by_count() && ask_.top_p >= 1.0 && ask_.min_p <= 0.0) return row_.draw(weighing_, ask_.number);
    const double total = by_count() || ask_.top_p >= 1.0 ? 0.0 : row_.weight(weighing_);
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

  const LogitRow& row_;
  const Ask& ask_;
  Weighing weighing_;
};

int32_t choose_from(const LogitRow& row, const Ask& ask) {
  return ask.temperature == 0.0 || !row.finite() ? row.best() : Draw(row, ask).token();
}

int32_t choose(const LogitRow& row, const Ask& ask) {
  return ask.mask == nullptr ? choose_from(row, ask) : choose_from(LogitRow(row, ask.mask), ask);
}

struct Listed {
  int32_t token;
  float logit;
};

// The best tokens, best first: all above the edge, and of those at it the lowest ids.
std::vector<Listed> best_of(const LogitRow& row, int32_t count) {
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

void score(const LogitRow& row, Ask& ask) {
  const double shift = std::log(row.weight({row.highest(), 1.0}));
  const auto logprob = [&](float logit) { return static_cast<float>(static_cast<double>(logit) - row.highest() - shift); };
  ask.logprob = logprob(row[ask.token]);
  const std::vector<Listed> best = best_of(row, ask.num_top);
  for (size_t place = 0; place < best.size(); ++place) {
    ask.top_ids[place] = best[place].token;
    ask.top_logprobs[place] = logprob(best[place].logit);
  }
}

void answer_row(const Scans& scans, float* logits, int32_t size, Ask& ask) {
  LogitRow row(scans, logits, size);
  ask.finite = row.finite() ? 1 : 0;
  if (ask.finite == 0) return;
  if (ask.chooses != 0) {
    const Changes changes(logits, ask, size);
    ask.token = changes.none() ? choose(row, ask) : choose(LogitRow(scans, logits, size), ask);
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
