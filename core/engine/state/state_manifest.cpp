#include "core/engine/state/state_manifest.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>

#include "core/base/hash.h"
#include "core/base/json.h"
#include "core/engine/state/saved_states_folder.h"
#include "core/model/safetensors/header.h"

namespace memtune::state {
namespace {

using nlohmann::json;

constexpr int kFormat = 2;               // 1 if one rank saved
constexpr const char* kCheck = "check";  // checksum of all other fields

void refuse_later_format(const json& value) {
  if (const int format = whole_int_at(value, "format", 1); format > kFormat)
    throw DamagedSavedStateError("its manifest has format " + std::to_string(format) +
                                 ", of a later memtune; this one reads up to " + std::to_string(kFormat));
}

void check_sum(json& value) {
  const std::string check = value.at(kCheck);
  value.erase(kCheck);
  if (hash_hex(value.dump()) != check) throw DamagedSavedStateError("its manifest was changed");
}

ManifestFileEntry read_file(const json& value) {
  ManifestFileEntry file{value.at("name"), whole_at(value, "bytes", 0), value.at("xxh3")};
  if (!is_data_file(file.name)) throw DamagedSavedStateError("its manifest names the file '" + file.name + "'");
  return file;
}

// A list with an entry per dimension.
std::vector<int64_t> counts(const json& value) {
  constexpr size_t kMaxDimensions = 64;  // as in safetensors
  if (value.size() > kMaxDimensions) throw DamagedSavedStateError("its manifest has a tensor of too many dimensions");
  std::vector<int64_t> counts;
  for (const json& count : value) counts.push_back(whole(count, 0));
  return counts;
}

std::optional<ShardExtent> read_part(const json& value) {
  if (!value.contains("whole")) return std::nullopt;
  ShardExtent part{counts(value.at("whole")), {}, whole_at(value, "begin", 0)};
  if (value.contains("order")) part.order = counts(value.at("order"));
  std::vector<int64_t> dimensions(part.whole.size());
  std::iota(dimensions.begin(), dimensions.end(), 0);
  if (!part.order.empty() && !std::ranges::is_permutation(part.order, dimensions))
    throw DamagedSavedStateError("its manifest has a tensor whose dimensions are in no order");
  return part;
}

ManifestTensorEntry read_tensor(const json& value, size_t files) {
  ManifestTensorEntry tensor{value.at("name"), {}, value.at("shape"), 0, value.at("xxh3"), read_part(value)};
  const auto dtype = safetensors::parse_dtype(value.at("dtype").get<std::string>());
  if (!dtype) throw DamagedSavedStateError("its manifest has the dtype " + value.at("dtype").dump());
  tensor.dtype = *dtype;
  tensor.file = static_cast<size_t>(whole_at(value, "file", 0, static_cast<int64_t>(files) - 1));
  return tensor;
}

json tensor_json(const ManifestTensorEntry& tensor) {
  json value = {{"name", tensor.name},
                {"dtype", to_string(tensor.dtype)},
                {"shape", tensor.shape},
                {"file", tensor.file},
                {"xxh3", tensor.hash}};
  if (!tensor.part) return value;
  value["whole"] = tensor.part->whole;
  value["begin"] = tensor.part->begin;
  if (!tensor.part->order.empty()) value["order"] = tensor.part->order;
  return value;
}

int format_of(const StateManifest& manifest) {
  const bool sharded =
      manifest.files.size() > 1 ||
      std::ranges::any_of(manifest.tensors, [](const ManifestTensorEntry& tensor) { return tensor.part.has_value(); });
  return sharded ? 2 : 1;
}

// Checks all parts of one tensor, in the order of the row.
void check_parts(const std::vector<const ManifestTensorEntry*>& parts) try {
  const ManifestTensorEntry& first = *parts.front();
  const auto refuse = [&](const std::string& why) {
    throw DamagedSavedStateError("its manifest has '" + first.name + "' " + why);
  };
  if (!first.part && parts.size() > 1) refuse("twice");
  if (!first.part) return;
  int64_t begin = 0;
  for (const ManifestTensorEntry* tensor : parts) {
    if (!tensor->part || tensor->part->whole != first.part->whole || tensor->part->order != first.part->order ||
        tensor->dtype != first.dtype || tensor->shape.size() != 1)
      refuse("in parts of different tensors");
    if (tensor->part->begin != begin || tensor->shape[0] < 1) refuse("in parts that leave a hole or overlap");
    if (__builtin_add_overflow(begin, tensor->shape[0], &begin)) refuse("in parts beyond all numbers");
  }
  if (safetensors::bytes_of(first.name, first.dtype, first.part->whole) !=
      safetensors::bytes_of(first.name, first.dtype, {begin}))
    refuse("in parts that are not all of it");
} catch (const safetensors::MalformedFileError& why) {
  throw DamagedSavedStateError(why.what());
}

}  // namespace

std::string print(const StateManifest& manifest) try {
  json value = {{"format", format_of(manifest)},
                {"step", manifest.step},
                {"settings", manifest.settings},
                {"files", json::array()},
                {"tensors", json::array()}};
  for (const ManifestFileEntry& file : manifest.files)
    value["files"].push_back({{"name", file.name}, {"bytes", file.bytes}, {"xxh3", file.hash}});
  for (const ManifestTensorEntry& tensor : manifest.tensors) value["tensors"].push_back(tensor_json(tensor));
  value[kCheck] = hash_hex(value.dump());
  return value.dump(1, '\t') + "\n";
} catch (const json::exception&) {
  throw UsageError("a tensor's name or a setting is no UTF-8");
}

StateManifest parse_manifest(const std::string& text) try {
  json value = parse_json(text, JsonDuplicateKeyPolicy::refused);
  refuse_later_format(value);
  check_sum(value);
  StateManifest manifest;
  manifest.step = whole_at(value, "step", 0);
  manifest.settings = value.value("settings", Settings());
  for (const json& file : value.at("files")) manifest.files.push_back(read_file(file));
  for (const json& tensor : value.at("tensors")) manifest.tensors.push_back(read_tensor(tensor, manifest.files.size()));
  return manifest;
} catch (const json::exception&) {
  throw DamagedSavedStateError("its manifest is none of memtune's");
}

void check_whole(const StateManifest& manifest) {
  std::map<std::string_view, std::vector<const ManifestTensorEntry*>> by_name;
  for (const ManifestTensorEntry& tensor : manifest.tensors) by_name[tensor.name].push_back(&tensor);
  for (auto& [name, parts] : by_name) {
    std::ranges::stable_sort(parts, {},
                             [](const ManifestTensorEntry* tensor) { return tensor->part ? tensor->part->begin : 0; });
    check_parts(parts);
  }
}

}  // namespace memtune::state
