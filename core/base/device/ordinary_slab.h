// Host memory from the system: page-aligned, not page-locked.
#pragma once

#include <cstdlib>

#include "core/base/bytes.h"
#include "core/base/error.h"
#include "core/base/device/device.h"

namespace memtune::device {

class OrdinarySlab final : public HostSlab {
 public:
  explicit OrdinarySlab(int64_t bytes) : bytes_(bytes) {
    const size_t rounded = (static_cast<size_t>(bytes) + kPage - 1) / kPage * kPage;
    data_ = static_cast<char*>(std::aligned_alloc(kPage, rounded));
    if (data_ == nullptr) throw OutOfHostMemory("the system refuses " + format_bytes(bytes) + " of host memory");
  }
  ~OrdinarySlab() override { std::free(data_); }
  OrdinarySlab(const OrdinarySlab&) = delete;
  OrdinarySlab& operator=(const OrdinarySlab&) = delete;

  char* data() override { return data_; }
  int64_t bytes() const override { return bytes_; }

 private:
  static constexpr size_t kPage = 4096;
  char* data_ = nullptr;
  int64_t bytes_;
};

}  // namespace memtune::device
