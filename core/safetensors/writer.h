// Writing of safetensors files: what will be in it first, then the bytes, tensor by tensor. The file is there, whole,
// when finish() returns; without it nothing is left behind.
#pragma once

#include <filesystem>
#include <span>
#include <string_view>

#include "core/base/file.h"
#include "core/base/hash.h"
#include "core/safetensors/header.h"

namespace memtune::safetensors {

struct Spec {
  std::string name;
  Dtype dtype = Dtype::f32;
  std::vector<int64_t> shape;
};

class Writer {
 public:
  // UsageError for names that are there twice or reserved, and for impossible shapes; IoError. `system` is for tests.
  Writer(const std::filesystem::path& path, std::span<const Spec> tensors, std::map<std::string, std::string> metadata,
         FileSystem& system = system_files());

  // In the order in which the bytes have to come: the widest elements first, so that each tensor is aligned to its own,
  // else as given.
  const std::vector<Entry>& entries() const { return header_.entries; }

  // The next bytes of the data, of one tensor or of several or of a part.
  void write(const char* data, int64_t bytes);
  // Throws IoError, and Error when bytes are missing.
  void finish();

  int64_t bytes() const { return bytes_; }          // of the file, so far
  std::string hash() const { return hash_.hex(); }  // of those bytes

 private:
  void put(std::string_view bytes);

  Header header_;
  int64_t left_;  // bytes of the data
  int64_t bytes_ = 0;
  Hasher hash_;
  OutputFile file_;
};

}  // namespace memtune::safetensors
