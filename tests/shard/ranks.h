// Runs ranks as threads of this process. They use Gloo, as processes do.
#pragma once

#include <ATen/Context.h>
#include <c10/core/AutogradState.h>

#include <cstdlib>
#include <exception>
#include <functional>
#include <thread>
#include <vector>

#include "core/engine/shard/collectives.h"
#include "tests/support/run_program.h"

namespace memtune::tests {

// Runs `rank` once on each rank, concurrently. Rethrows the exception of the lowest rank that threw one.
inline void on_ranks(int size, const std::function<void(shard::Collectives&)>& rank,
                     std::chrono::milliseconds timeout = std::chrono::seconds(60)) {
  // c10d records all collectives of a process without a lock. That is safe for processes, but not for threads.
  setenv("TORCH_FR_BUFFER_SIZE", "0", 1);
  const test::ScratchFolder folder;
  std::vector<std::exception_ptr> errors(static_cast<size_t>(size));
  std::vector<std::thread> threads;
  for (int i = 0; i < size; ++i)
    threads.emplace_back([&, i] {
      c10::AutogradState::get_tls_state().set_multithreading_enabled(false);
      try {
        const auto group = shard::connect({i, size, (folder.path / "meeting").string(), timeout});
        rank(*group);
      } catch (...) {
        errors[static_cast<size_t>(i)] = std::current_exception();
      }
    });
  for (std::thread& thread : threads) thread.join();
  for (const std::exception_ptr& error : errors)
    if (error) std::rethrow_exception(error);
}

}  // namespace memtune::tests
