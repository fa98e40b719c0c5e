// The cores that parallel searches of a planner share. A search holds one core; what it runs in parallel also takes
// those that are free.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <functional>
#include <future>
#include <semaphore>
#include <system_error>
#include <vector>

namespace memtune::planner {

class CoreSemaphore {
 public:
  explicit CoreSemaphore(unsigned count) : free_(std::max(1U, count)) {}

  // Holds one core, waiting for it.
  class Held {
   public:
    explicit Held(CoreSemaphore& cores) : cores_(cores) { cores_.free_.acquire(); }
    ~Held() { cores_.free_.release(); }
    Held(const Held&) = delete;
    Held& operator=(const Held&) = delete;

   private:
    CoreSemaphore& cores_;
  };

  // Holds up to `most` cores, as many as are free. Does not wait.
  class Helpers {
   public:
    Helpers(CoreSemaphore& cores, size_t most) : cores_(cores) {
      while (count_ < most && cores_.free_.try_acquire()) ++count_;
    }
    ~Helpers() { cores_.free_.release(static_cast<std::ptrdiff_t>(count_)); }
    Helpers(const Helpers&) = delete;
    Helpers& operator=(const Helpers&) = delete;

    size_t count() const { return count_; }

    // Calls `work` with each number below `calls`, on this thread and one for each helper. Throws what a call throws.
    void run(size_t calls, const std::function<void(size_t)>& work) const {
      std::atomic<size_t> next = 0;
      const auto some = [&] {
        for (size_t i = next++; i < calls; i = next++) work(i);
      };
      std::vector<std::future<void>> others;
      for (size_t i = 0; i < count_ && i + 1 < calls; ++i) try {
          others.push_back(std::async(std::launch::async, some));
        } catch (const std::system_error&) {  // no more threads: the others do its part
          break;
        }
      some();
      for (std::future<void>& other : others) other.get();
    }

   private:
    CoreSemaphore& cores_;
    size_t count_ = 0;
  };

 private:
  std::counting_semaphore<> free_;
};

}  // namespace memtune::planner
