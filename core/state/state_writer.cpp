#include "core/state/state_writer.h"

#include <algorithm>
#include <cerrno>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "core/base/file.h"

namespace memtune::state {
namespace {

using nlohmann::json;

constexpr size_t kPieceBytes = size_t{8} << 20;

// By which torch.distributed.checkpoint knows which part of each tensor the file has: from the origin on, all of it.
std::map<std::string, std::string> sharding(std::span<const safetensors::Spec> tensors) try {
  json parts = json::object();
  for (const safetensors::Spec& tensor : tensors)
    parts[tensor.name] = {{"saved_offsets", std::vector<int>(tensor.shape.size(), 0)}};
  return {{"format", "pt"}, {"DCP_VERSION", "1.0"}, {"DCP_SHARDING_INFO", parts.dump()}};
} catch (const json::exception&) {
  throw UsageError("a tensor's name is no UTF-8");
}

}  // namespace

StateWriter::Place::Place(StateFolder& folder, int64_t step) : folder_(folder), step_(step) {
  folder.remove_remains();
  const std::filesystem::path path = folder.path(step);
  const int made = folder.files().make_folder(path);
  if (made < 0) throw_io_error("make the folder", path, -made);
}

StateWriter::Place::~Place() {
  if (kept_) return;
  try {
    folder_.remove(step_);
  } catch (const IoError&) {
    // What failed the save may fail its removal too; the next save takes it away.
  }
}

StateWriter::StateWriter(StateFolder& folder, int64_t step, std::span<const safetensors::Spec> tensors)
    : folder_(folder), place_(folder, step) {
  manifest_.step = step;
  sync_folder(folder.root(), folder.files());
  data_ =
      std::make_unique<safetensors::Writer>(folder.path(step) / kDataFile, tensors, sharding(tensors), folder.files());
  piece_.reserve(kPieceBytes);
  hash_.emplace();
}

void StateWriter::write(const char* data, int64_t bytes) {
  add_to_hash(data, bytes);
  while (bytes > 0) {
    const int64_t part = std::min(bytes, static_cast<int64_t>(kPieceBytes - piece_.size()));
    piece_.insert(piece_.end(), data, data + part);
    data += part, bytes -= part;
    if (piece_.size() == kPieceBytes) flush();
  }
}

void StateWriter::flush() {
  data_->write(piece_.data(), static_cast<int64_t>(piece_.size()));
  piece_.clear();
}

// Portions need not end where tensors do.
void StateWriter::add_to_hash(const char* data, int64_t bytes) {
  while (bytes > 0 && manifest_.tensors.size() < entries().size()) {
    const int64_t part = std::min(bytes, entries()[manifest_.tensors.size()].bytes() - hashed_);
    hash_->add(data, static_cast<size_t>(part));
    data += part, bytes -= part, hashed_ += part;
    if (hashed_ == entries()[manifest_.tensors.size()].bytes()) end_tensor();
  }
}

void StateWriter::end_tensor() {
  const safetensors::Entry& entry = entries()[manifest_.tensors.size()];
  manifest_.tensors.push_back({entry.name, entry.dtype, entry.shape, 0, hash_->hex()});
  hash_.emplace();
  hashed_ = 0;
}

void StateWriter::publish() {
  flush();
  data_->finish();
  while (manifest_.tensors.size() < entries().size()) end_tensor();  // the last ones may have no bytes
  manifest_.files = {{kDataFile, data_->bytes(), data_->hash()}};
  write_file(folder_.path(manifest_.step) / kManifest, print(manifest_), folder_.files());
  place_.keep();
  write_file(folder_.root() / kLatest, folder_name(manifest_.step) + "\n", folder_.files());
}

}  // namespace memtune::state
