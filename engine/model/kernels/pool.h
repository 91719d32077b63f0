// The threads of a step: they take chunks of one phase after the other, and sleep where there is nothing to do.
#pragma once

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

#include "kernels.h"

namespace tidemark {

// Runs programs on the calling thread and `num_threads - 1` others. One run at a time.
class Pool {
 public:
  explicit Pool(int32_t num_threads);
  ~Pool();
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  void run(const Kernel* kernels, const Program& program, const Step& step);
  // Calls work(argument, chunk, scratch) for each chunk below `chunks`, on all threads.
  void each(int32_t chunks, void (*work)(void*, int32_t, char*), void* argument);

  int32_t num_threads() const { return num_threads_; }

 private:
  struct alignas(128) Phase {
    std::atomic<int32_t> left{0};
    int32_t chunks = 0;
    int32_t instruction = 0;
    int32_t phase = 0;
  };

  // A thread's own chunks of a phase, which it takes first: rows stay with the thread that has them in its cache.
  struct alignas(128) Share {
    std::atomic<int32_t> next{0};
    int32_t end = 0;
  };

  void lay_out(const Kernel* kernels);
  void start_and_join(int32_t num_phases);
  void take_phases(int32_t thread);
  int32_t take_chunks(const Phase& phase, Share& share, char* scratch);
  void live(int32_t thread);

  const int32_t num_threads_;
  std::vector<char*> scratch_;
  std::vector<Phase> phases_;
  std::vector<Share> shares_;  // [phase][thread]
  int32_t num_phases_ = 0;
  char* workspace_ = nullptr;
  int64_t workspace_bytes_ = 0;
  Run run_{};
  const Kernel* kernels_ = nullptr;
  void (*task_)(void*, int32_t, char*) = nullptr;
  void* argument_ = nullptr;
  std::atomic<int32_t> turn_{0};      // raised to start a run, and to end
  std::atomic<int32_t> open_{0};      // the turn that threads may join, or 0
  std::atomic<int32_t> inside_{0};    // threads beside the caller's that may take phases
  std::atomic<int32_t> sleepers_{0};  // threads that want a system call to be woken
  std::atomic<bool> ending_{false};
  std::vector<std::thread> threads_;
};

}  // namespace tidemark
