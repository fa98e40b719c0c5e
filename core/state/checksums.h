// Checksums of a data file while its bytes go by, in their order: of every tensor, and of the whole file.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/base/hash.h"
#include "core/safetensors/header.h"

namespace memtune::state {

class Checksums {
 public:
  // `entries` must outlive this; `head`: what the file has before the data.
  Checksums(const std::vector<safetensors::Entry>& entries, std::string_view head);

  // The next bytes of the data, in any portions.
  void add(const char* data, int64_t bytes);

  // Of the tensors whose bytes have all come, in the order of the data.
  const std::vector<std::string>& tensors() const { return tensors_; }
  std::string file() const { return file_.hex(); }

 private:
  void add_part(const char* data, int64_t bytes);
  void end_tensors();

  const std::vector<safetensors::Entry>& entries_;
  Hasher file_, tensor_;
  int64_t end_ = 0;  // of what has come
  std::vector<std::string> tensors_;
};

}  // namespace memtune::state
