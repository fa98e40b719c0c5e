// Checksums of every tensor of a data file and of the whole file, computed while its bytes pass in order.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/base/hash.h"
#include "core/model/safetensors/header.h"

namespace memtune::state {

class StreamingTensorAndFileChecksums {
 public:
  // `entries` must outlive this. `head`: the bytes of the file before the data.
  StreamingTensorAndFileChecksums(const std::vector<safetensors::TensorEntry>& entries, std::string_view head);

  // Adds the next bytes of the data, in portions of any size.
  void add(const char* data, int64_t bytes);

  // Checksums of the tensors that are complete so far, in the order of the data.
  const std::vector<std::string>& tensors() const { return tensors_; }
  std::string file() const { return file_.hex(); }

 private:
  void add_part(const char* data, int64_t bytes);
  void end_tensors();

  const std::vector<safetensors::TensorEntry>& entries_;
  IncrementalXxh3Hasher file_, tensor_;
  int64_t end_ = 0;  // of the bytes so far
  std::vector<std::string> tensors_;
};

}  // namespace memtune::state
