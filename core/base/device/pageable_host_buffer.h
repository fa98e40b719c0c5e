// Host memory from the system: page-aligned, not page-locked.
#pragma once

#include <cstdlib>

#include "core/base/bytes.h"
#include "core/base/device/device.h"
#include "core/base/error.h"

namespace memtune::device {

class PageableHostBuffer final : public HostBuffer {
 public:
  explicit PageableHostBuffer(int64_t bytes) : bytes_(bytes) {
    data_ = static_cast<char*>(std::aligned_alloc(kPage, static_cast<size_t>(round_up(bytes, kPage))));
    if (data_ == nullptr) throw OutOfHostMemoryError("the system refuses " + format_bytes(bytes) + " of host memory");
  }
  ~PageableHostBuffer() override { std::free(data_); }
  PageableHostBuffer(const PageableHostBuffer&) = delete;
  PageableHostBuffer& operator=(const PageableHostBuffer&) = delete;

  char* data() override { return data_; }
  int64_t bytes() const override { return bytes_; }

 private:
  static constexpr int64_t kPage = 4096;
  char* data_ = nullptr;
  int64_t bytes_;
};

}  // namespace memtune::device
