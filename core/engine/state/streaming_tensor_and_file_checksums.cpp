#include "core/engine/state/streaming_tensor_and_file_checksums.h"

#include <algorithm>

namespace memtune::state {
namespace {

constexpr int64_t kCachedBytes = int64_t{128} << 10;  // stays in the cache for the second hash

}  // namespace

StreamingTensorAndFileChecksums::StreamingTensorAndFileChecksums(const std::vector<safetensors::TensorEntry>& entries,
                                                                 std::string_view head)
    : entries_(entries) {
  file_.add(head.data(), head.size());
  end_tensors();
}

void StreamingTensorAndFileChecksums::add(const char* data, int64_t bytes) {
  while (bytes > 0) {
    int64_t part = std::min(bytes, kCachedBytes);
    if (tensors_.size() < entries_.size()) part = std::min(part, entries_[tensors_.size()].end - end_);
    add_part(data, part);
    data += part, bytes -= part;
  }
}

void StreamingTensorAndFileChecksums::add_part(const char* data, int64_t bytes) {
  file_.add(data, static_cast<size_t>(bytes));
  tensor_.add(data, static_cast<size_t>(bytes));
  end_ += bytes;
  end_tensors();
}

// Several can end at once, if they have no bytes.
void StreamingTensorAndFileChecksums::end_tensors() {
  while (tensors_.size() < entries_.size() && entries_[tensors_.size()].end == end_) {
    tensors_.push_back(tensor_.hex());
    tensor_.reset();
  }
}

}  // namespace memtune::state
