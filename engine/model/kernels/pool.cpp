#include "pool.h"

#include <sys/mman.h>

#include <linux/futex.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <x86intrin.h>

#include <climits>
#include <cstdlib>
#include <new>

namespace tidemark {
namespace {

// A spin is short enough not to be felt by whoever shares the core, and long enough for a neighbour's chunk to end.
constexpr uint64_t kSpinCycles = 60'000;  // about 20 microseconds

int32_t* word(std::atomic<int32_t>& value) { return reinterpret_cast<int32_t*>(&value); }

// Spins, then sleeps, until `value` is no longer `seen`; whoever changes it calls `wake` with the same count of sleepers.
void wait_while(std::atomic<int32_t>& value, int32_t seen, std::atomic<int32_t>& sleepers) {
  const uint64_t start = __rdtsc();
  while (value.load() == seen) {
    if (__rdtsc() - start < kSpinCycles) {
      _mm_pause();
      continue;
    }
    sleepers.fetch_add(1);
    syscall(SYS_futex, word(value), FUTEX_WAIT_PRIVATE, seen, nullptr, nullptr, 0);
    sleepers.fetch_sub(1);
  }
}

void wake(std::atomic<int32_t>& value, std::atomic<int32_t>& sleepers) {
  if (sleepers.load() != 0) syscall(SYS_futex, word(value), FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
}

// In large pages, if the system has any.
char* aligned(int64_t bytes) {
  constexpr int64_t huge = 2 << 20;
  const size_t size = static_cast<size_t>((bytes + huge - 1) / huge * huge);
  void* memory = std::aligned_alloc(huge, size);
  if (memory == nullptr) throw std::bad_alloc();
  madvise(memory, size, MADV_HUGEPAGE);
  return static_cast<char*>(memory);
}

}  // namespace

Pool::Pool(int32_t num_threads) : num_threads_(num_threads < 1 ? 1 : num_threads > kMaxThreads ? kMaxThreads : num_threads) {
  for (int32_t thread = 0; thread < num_threads_; ++thread) scratch_.push_back(aligned(kScratchBytes));
  for (int32_t thread = 1; thread < num_threads_; ++thread) {
    threads_.emplace_back([this, thread] { live(thread); });
    pthread_setname_np(threads_.back().native_handle(), "model-kernel");
  }
}

Pool::~Pool() {
  ending_.store(true);
  turn_.fetch_add(1);
  wake(turn_, sleepers_);
  for (std::thread& thread : threads_) thread.join();
  for (char* scratch : scratch_) std::free(scratch);
  std::free(workspace_);
}

void Pool::run(const Kernel* kernels, const Program& program, const Step& step) {
  run_ = Run{&program, &step, num_threads_, nullptr};
  task_ = nullptr;
  lay_out(kernels);
  start_and_join(num_phases_);
}

void Pool::each(int32_t chunks, void (*work)(void*, int32_t, char*), void* argument) {
  if (chunks == 1) return work(argument, 0, scratch_[0]);  // not worth waking anybody
  task_ = work;
  argument_ = argument;
  if (phases_.empty()) phases_ = std::vector<Phase>(1);
  num_phases_ = 1;
  phases_[0].chunks = chunks;
  start_and_join(1);
}

void Pool::lay_out(const Kernel* kernels) {
  kernels_ = kernels;
  const Program& program = *run_.program;
  int64_t bytes = 0;
  size_t count = 0;
  for (int32_t index = 0; index < program.num_instructions; ++index) {
    const Instruction& instruction = program.instructions[index];
    const Kernel& kernel = kernels[static_cast<int>(instruction.op)];
    count += static_cast<size_t>(kernel.phases);
    const int64_t needed = kernel.workspace == nullptr ? 0 : kernel.workspace(run_, instruction);
    if (needed > bytes) bytes = needed;
  }
  if (phases_.size() < count) phases_ = std::vector<Phase>(count);
  if (workspace_bytes_ < bytes) {
    std::free(workspace_);
    workspace_ = aligned(bytes);
    workspace_bytes_ = bytes;
  }
  run_.workspace = workspace_;
  num_phases_ = 0;
  for (int32_t index = 0; index < program.num_instructions; ++index) {
    const Kernel& kernel = kernels[static_cast<int>(program.instructions[index].op)];
    for (int32_t phase = 0; phase < kernel.phases; ++phase) {
      Phase& next = phases_[static_cast<size_t>(num_phases_++)];
      next.instruction = index;
      next.phase = phase;
      next.chunks = kernel.chunks(run_, program.instructions[index], phase);
    }
  }
}

// Where a thread's share begins; the calling thread's is the largest.
static int32_t first_chunk(int32_t chunks, int32_t thread, int32_t num_threads) {
  return static_cast<int32_t>((int64_t{chunks} * thread + num_threads - 1) / num_threads);
}

void Pool::start_and_join(int32_t num_phases) {
  const size_t count = static_cast<size_t>(num_phases) * static_cast<size_t>(num_threads_);
  if (shares_.size() < count) shares_ = std::vector<Share>(count);
  for (int32_t index = 0; index < num_phases; ++index) {
    Phase& phase = phases_[static_cast<size_t>(index)];
    phase.left.store(phase.chunks, std::memory_order_relaxed);
    for (int32_t thread = 0; thread < num_threads_; ++thread) {
      Share& share = shares_[static_cast<size_t>(index * num_threads_ + thread)];
      share.next.store(first_chunk(phase.chunks, thread, num_threads_), std::memory_order_relaxed);
      share.end = first_chunk(phase.chunks, thread + 1, num_threads_);
    }
  }
  const int32_t turn = turn_.load() + 1;
  open_.store(turn);
  turn_.store(turn);
  wake(turn_, sleepers_);
  take_phases(0);
  open_.store(0);
  for (int32_t seen; (seen = inside_.load()) != 0;) wait_while(inside_, seen, sleepers_);
}

int32_t Pool::take_chunks(const Phase& phase, Share& share, char* scratch) {
  int32_t done = 0;
  for (int32_t chunk; (chunk = share.next.fetch_add(1, std::memory_order_relaxed)) < share.end; ++done) {
    if (task_ != nullptr) {
      task_(argument_, chunk, scratch);
    } else {
      const Instruction& instruction = run_.program->instructions[phase.instruction];
      kernels_[static_cast<int>(instruction.op)].work(run_, instruction, phase.phase, chunk, scratch);
    }
  }
  return done;
}

// Its own share first, then what the others have left.
void Pool::take_phases(int32_t thread) {
  char* scratch = scratch_[static_cast<size_t>(thread)];
  for (int32_t index = 0; index < num_phases_; ++index) {
    Phase& phase = phases_[static_cast<size_t>(index)];
    int32_t done = 0;
    for (int32_t other = 0; other < num_threads_ && phase.chunks != 0; ++other)
      done += take_chunks(phase, shares_[static_cast<size_t>(index * num_threads_ + (thread + other) % num_threads_)], scratch);
    if (done != 0 && phase.left.fetch_sub(done) == done) wake(phase.left, sleepers_);
    for (int32_t left; (left = phase.left.load()) > 0;) wait_while(phase.left, left, sleepers_);
  }
}

// A thread that wakes when the run is over leaves again, so that a run never waits for one that was not there.
void Pool::live(int32_t thread) {
  for (int32_t seen = 0;;) {
    wait_while(turn_, seen, sleepers_);
    seen = turn_.load();
    if (ending_.load()) return;
    inside_.fetch_add(1);
    if (open_.load() == seen) take_phases(thread);
    inside_.fetch_sub(1);
    wake(inside_, sleepers_);
  }
}

}  // namespace tidemark
