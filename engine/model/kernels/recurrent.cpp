// How the work of recurrent layers is cut: into units that depend on no other, and those into as many pieces as keep the
// threads busy.
#include "recurrent.h"

#include <algorithm>

#include "pool.h"

namespace tidemark {
namespace {

template <class Layer>
struct Work {
  const Layer& layer;
  void (*unit)(const Layer&, int32_t, char*);
  int32_t units, pieces;
};

template <class Layer>
void do_piece(void* argument, int32_t piece, char* scratch) {
  const Work<Layer>& work = *static_cast<const Work<Layer>*>(argument);
  const int32_t first = static_cast<int32_t>(int64_t{work.units} * piece / work.pieces);
  const int32_t end = static_cast<int32_t>(int64_t{work.units} * (piece + 1) / work.pieces);
  for (int32_t unit = first; unit < end; ++unit) work.unit(work.layer, unit, scratch);
}

template <class Layer>
void do_all(Pool& pool, const Layer& layer, int32_t units, void (*unit)(const Layer&, int32_t, char*)) {
  Work<Layer> work{layer, unit, units, std::min(units, 4 * pool.num_threads())};
  pool.each(work.pieces, do_piece<Layer>, &work);
}

}  // namespace

void convolve(Pool& pool, const Recurrences& kernels, const Convolution& convolution) {
  do_all(pool, convolution, convolution.step.num_spans * ceil_div(convolution.channels, kUnitChannels), kernels.convolve);
}

void select(Pool& pool, const Recurrences& kernels, const Selection& selection) {
  do_all(pool, selection, selection.step.num_spans * selection.heads, kernels.select);
}

void apply_delta_rule(Pool& pool, const Recurrences& kernels, const DeltaRule& rule) {
  do_all(pool, rule, rule.step.num_spans * rule.value_heads, kernels.apply_delta_rule);
}

}  // namespace tidemark
