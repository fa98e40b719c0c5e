#include "core/frontend/probe.h"

#include <optional>

#include "core/base/bytes.h"
#include "core/base/file.h"
#include "core/frontend/zip_directory.h"

namespace memtune::frontend {
namespace {

// Tensors are stored as they are; code is packed, and small.
void check_unpacked_size(const std::string& path) {
  constexpr int64_t kMostPacked = int64_t{256} << 20;
  const InputFile file(path);
  const std::optional<int64_t> bytes = unpacked_bytes(file);
  if (!bytes) config::refuse_model(path, "it is damaged: the archive's directory makes no sense");
  if (*bytes - kMostPacked > file.size())
    config::refuse_model(path, "its " + format_bytes(file.size()) + " unpack to " + format_bytes(*bytes));
}

}  // namespace

Probe probe(const config::ModelSource& source) {
  if (!source.profile.empty()) return {true, {}};
  Probe found{false, config::look_at_model(source.path)};
  if (found.file.instead.empty()) check_unpacked_size(source.path);
  return found;
}

}  // namespace memtune::frontend
