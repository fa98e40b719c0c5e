#include "core/frontend/probe.h"

#include <caffe2/serialize/inline_container.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <optional>

#include "core/base/bytes.h"
#include "core/base/error.h"
#include "core/frontend/zip_directory.h"
#include "core/program/first_line.h"

namespace memtune::frontend {
namespace {

namespace fs = std::filesystem;

// The directory of a zip archive stands at its end: a file that was cut off has none.
void check_is_whole_zip(const std::string& path) {
  std::error_code error;
  if (!fs::exists(path, error)) refuse(path, "there is no such file");
  if (fs::is_directory(path, error)) refuse(path, "it is a folder, not a TorchScript file");
  std::ifstream file(path, std::ios::binary);
  if (!file) refuse(path, "it cannot be read");
  auto size = static_cast<std::streamoff>(fs::file_size(path, error));
  if (error || size == 0) refuse(path, "it is empty");
  std::string start(4, '\0');
  file.read(start.data(), 4);
  if (start.compare(0, 4, "PK\3\4") != 0)
    refuse(path, std::string("it is no zip archive, so no TorchScript") + kHowToSave);
  std::string tail(static_cast<size_t>(std::min<std::streamoff>(size, 65536 + 22)), '\0');
  file.seekg(size - static_cast<std::streamoff>(tail.size()));
  file.read(tail.data(), static_cast<std::streamsize>(tail.size()));
  if (tail.find("PK\5\6") == std::string::npos)
    refuse(path, "it is damaged or cut off: the archive's directory is missing");
}

// Tensors are stored as they are; code is packed, and small.
void check_unpacked_size(const std::string& path) {
  constexpr int64_t kMostPacked = int64_t{256} << 20;
  const InputFile file(path);
  const std::optional<int64_t> bytes = unpacked_bytes(file);
  if (!bytes) refuse(path, "it is damaged: the archive's directory makes no sense");
  if (*bytes - kMostPacked > file.size())
    refuse(path, "its " + format_bytes(file.size()) + " unpack to " + format_bytes(*bytes));
}

std::vector<std::string> record_names(const std::string& path) {
  try {
    return caffe2::serialize::PyTorchStreamReader(path).getAllRecords();
  } catch (const std::exception& error) {
    std::string why = program::first_line(error);
    if (why.find("subdirectory") != std::string::npos || why.find("version") != std::string::npos) return {};
    refuse(path, "it is damaged or no TorchScript (" + why + ")");
  }
}

}  // namespace

const char* const kHowToSave = "; save the model with torch.jit.script(model).save(path) or torch.jit.trace(...)";

bool Probe::has(const std::string& start) const {
  return std::any_of(records.begin(), records.end(), [&](const auto& name) { return name.starts_with(start); });
}

Probe probe(const config::ModelSource& source) {
  if (!source.profile.empty()) return {true, {}};
  check_is_whole_zip(source.path);
  check_unpacked_size(source.path);
  return {false, record_names(source.path)};
}

void refuse(const std::string& path, const std::string& why) {
  throw UsageError("cannot use the model '" + path + "': " + why);
}

}  // namespace memtune::frontend
