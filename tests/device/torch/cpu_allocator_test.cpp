// This allocator counts the peaks on the CPU device. They must be exact, even after a refused allocation.
#include "core/base/device/torch/cpu_allocator.h"

#include <ATen/ATen.h>
#include <doctest/doctest.h>

#include <string>
#include <thread>
#include <vector>

namespace memtune::cpu_allocator_test {

namespace {

// Counts from here on and ignores memory that other tests hold.
struct Base {
  Base() { counter.reset_peak(); }
  ~Base() { counter.set_cap(0); }
  int64_t live() const { return counter.allocated() - at_start; }
  int64_t peak() const { return counter.peak() - at_start; }
  memtune::device::CappedMemoryCounter& counter = memtune::device::install_cpu_allocator();
  int64_t at_start = counter.allocated();
};

at::Tensor bytes(int64_t count) { return at::empty({count}, at::kByte); }

}  // namespace

TEST_CASE("tensors are counted to the byte and the peak stays after they are freed") {
  const Base base;
  {
    const auto a = at::empty({1000}, at::kFloat);
    CHECK(base.live() == 4000);
    {
      const auto b = bytes(1);
      CHECK(base.live() == 4001);
    }
    CHECK(base.live() == 4000);
    CHECK(base.peak() == 4001);
  }
  CHECK(base.live() == 0);
  CHECK(base.peak() == 4001);
  base.counter.reset_peak();
  CHECK(base.peak() == 0);
}

TEST_CASE("an empty tensor takes no memory") {
  const Base base;
  const auto none = bytes(0);
  CHECK(none.numel() == 0);
  CHECK(base.live() == 0);
  CHECK(base.peak() == 0);
}

TEST_CASE("memory is aligned to 64 bytes and writable to its last byte") {
  const Base base;
  for (const int64_t count : {1, 63, 64, 65, 4097}) {
    auto tensor = bytes(count);
    CHECK(reinterpret_cast<uintptr_t>(tensor.data_ptr()) % 64 == 0);
    tensor.fill_(255);
    CHECK(tensor[count - 1].item<int>() == 255);
  }
  CHECK(base.live() == 0);
}

TEST_CASE("resizing a storage keeps its content and counts the new size") {
  const Base base;
  auto tensor = bytes(100);
  tensor.fill_(7);
  tensor.resize_({300});
  CHECK(base.live() == 300);
  CHECK(base.peak() == 400);
  CHECK(tensor[99].item<int>() == 7);
}

TEST_CASE("an allocation over the cap throws out of memory and the counters stay exact") {
  const Base base;
  const auto held = bytes(600);
  base.counter.set_cap(base.at_start + 1000);
  std::string message;
  try {
    bytes(401);
  } catch (const c10::OutOfMemoryError& error) {
    message = error.msg();
  }
  const std::string allocated = std::to_string(base.at_start + 600), cap = std::to_string(base.at_start + 1000);
  CHECK(message == "CPU device out of memory: tried to allocate 401 bytes, " + allocated +
                       " bytes are allocated, the cap is " + cap + " bytes");
  CHECK(base.live() == 600);
  CHECK(base.peak() == 600);

  const auto fits = bytes(400);  // exactly up to the cap
  CHECK(base.live() == 1000);
  base.counter.set_cap(0);
  const auto uncapped = bytes(5000);
  CHECK(base.live() == 6000);
}

TEST_CASE("allocator counters stay exact when threads allocate concurrently and some requests fail") {
  const Base base;
  base.counter.set_cap(base.at_start + 3000);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([] {
      for (int i = 0; i < 2000; ++i) {
        try {
          bytes(1000);
        } catch (const c10::OutOfMemoryError&) {
        }
      }
    });
  }
  for (auto& thread : threads) thread.join();
  CHECK(base.live() == 0);
  CHECK(base.peak() <= 3000);
  CHECK(base.peak() % 1000 == 0);
}

}  // namespace memtune::cpu_allocator_test
