// The data of a state in the form that a writer takes: all tensors at their offsets, in memory aligned for transfers.
#pragma once

#include <algorithm>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "core/engine/disk/async_file_io.h"
#include "core/engine/state/atomic_saved_state_writer.h"
#include "core/model/safetensors/layout.h"

namespace memtune::test {

using Contents = std::map<std::string, std::string>;  // tensors' bytes by name

class StateImage {
 public:
  StateImage(const std::vector<safetensors::TensorNameDtypeAndShape>& specs, const Contents& contents)
      : entries_(safetensors::lay_out(specs)), data_(disk::aligned_bytes(bytes() + 1)) {
    for (const safetensors::TensorEntry& entry : entries_)
      std::memcpy(data_.get() + entry.begin, contents.at(entry.name).data(), static_cast<size_t>(entry.bytes()));
  }
  int64_t bytes() const { return safetensors::data_bytes_of(entries_); }
  char* data() { return data_.get(); }

  // Writes everything, `portion` bytes at a time.
  void write(state::AtomicSavedStateWriter& writer, int64_t portion) {
    for (int64_t begin = 0; begin < bytes(); begin += portion)
      writer.write(data_.get() + begin, std::min(portion, bytes() - begin));
  }

 private:
  std::vector<safetensors::TensorEntry> entries_;
  disk::AlignedBuffer data_;
};

}  // namespace memtune::test
