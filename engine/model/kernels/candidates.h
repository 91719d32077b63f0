// The tokens of a row that may be drawn.
#pragma once

#include <vector>

#include "logit_row.h"

namespace tidemark {

struct Candidate {
  int32_t token;
  float logit;
  double weight;
};

// Those from a logit on, in the order of their ids. A thread has one such object at a time, since all share its memory.
class Candidates {
 public:
  Candidates(const LogitRow& row, const Weighing& weighing, float floor);

  double weight() const;

  // The lowest logit of the `count` best, and of the fewest best that weigh `weight`; -inf where all are too few.
  float edge_of_count(int32_t count) const;
  float edge_of_weight(double weight) const;

  // The others weigh nothing any more.
  void keep_from(float logit);
  void keep_heavy(double weight);

  // The first token up to which the weights add up to more than `number` of their sum.
  int32_t draw(double number) const;

 private:
  std::vector<Candidate>& all_;
};

}  // namespace tidemark
