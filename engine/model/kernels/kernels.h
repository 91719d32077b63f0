// How an instruction is run: cut into phases of chunks that any thread may take, by one table for each level.
//
// Between two phases every chunk of the first is done. What a chunk computes depends on the program, the step and the
// chunk's number alone, never on the thread or the number of threads; how rows are cut into chunks may depend on
// the load, so a row's result must not depend on the cut.
#pragma once

#include "program.h"

namespace tidemark {

constexpr int64_t kScratchBytes = 2 << 20;  // of each thread: one large page

struct Run {
  const Program* program;
  const Step* step;
  int32_t num_threads;
  char* workspace;  // shared by the chunks of an instruction; as large as its kernel's `workspace` says
};

struct Kernel {
  int32_t phases;
  int64_t (*workspace)(const Run&, const Instruction&);               // bytes, or null for none
  int32_t (*chunks)(const Run&, const Instruction&, int32_t phase);   // how many
  void (*work)(const Run&, const Instruction&, int32_t phase, int32_t chunk, char* scratch);
};

constexpr int kNumOps = static_cast<int>(Op::combine) + 1;

// One kernel for each Op, by its number. Compiled apart, each for its instruction set.
const Kernel* avx2_kernels();
const Kernel* avx512_kernels();
const Kernel* amx_kernels();

inline int32_t rows_of(const Run& run, const Instruction& instruction) {
  return instruction.of_logits ? run.step->num_logit_rows : run.step->num_rows;
}

inline int32_t ceil_div(int32_t a, int32_t b) { return (a + b - 1) / b; }

// Rows of an elementwise chunk: few chunks, since each costs an atomic, and enough for every thread.
inline int32_t rows_per_chunk(const Run& run, int32_t rows) {
  const int32_t even = ceil_div(rows, 4 * run.num_threads);
  return even < 1 ? 1 : even;
}

}  // namespace tidemark
