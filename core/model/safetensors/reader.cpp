#include "core/model/safetensors/reader.h"

namespace memtune::safetensors {
namespace {

RandomAccessFileReader open(const std::filesystem::path& path, FileSystem& system) try {
  return RandomAccessFileReader(path, system);
} catch (const IoError& error) {
  throw UsageError(error.what());
}

}  // namespace

Reader::Reader(const std::filesystem::path& path, FileSystem& system) : file_(open(path, system)) {
  try {
    read_header();
  } catch (const MalformedFileError& why) {
    throw UsageError("'" + path.string() + "' is not a safetensors file memtune can read: " + why.what());
  }
}

std::string Reader::head() const {
  std::string bytes(static_cast<size_t>(data_), '\0');
  file_.read(bytes.data(), data_, 0);
  return bytes;
}

void Reader::read_header() {
  if (file_.size() < kLengthBytes) throw MalformedFileError("it has only " + std::to_string(file_.size()) + " bytes");
  char length[kLengthBytes];
  file_.read(length, kLengthBytes, 0);
  std::string text(static_cast<size_t>(parse_length(reinterpret_cast<unsigned char*>(length), file_.size())), '\0');
  data_ = kLengthBytes + static_cast<int64_t>(text.size());
  file_.read(text.data(), data_ - kLengthBytes, kLengthBytes);
  header_ = parse_header(text, file_.size() - data_);
}

}  // namespace memtune::safetensors
