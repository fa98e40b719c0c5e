#include "core/state/manifest.h"

#include <nlohmann/json.hpp>

#include "core/base/hash.h"
#include "core/base/json.h"
#include "core/state/state_folder.h"

namespace memtune::state {
namespace {

using nlohmann::json;

constexpr int kFormat = 1;
constexpr const char* kCheck = "check";  // of all other fields

void refuse_later_format(const json& value) {
  if (const int format = whole_int(value.at("format"), 1); format > kFormat)
    throw Damaged("its manifest has format " + std::to_string(format) + ", of a later memtune; this one reads up to " +
                  std::to_string(kFormat));
}

void check_sum(json& value) {
  const std::string check = value.at(kCheck);
  value.erase(kCheck);
  if (hash_hex(value.dump()) != check) throw Damaged("its manifest was changed");
}

StateFile read_file(const json& value) {
  StateFile file{value.at("name"), whole(value.at("bytes"), 0), value.at("xxh3")};
  if (!is_data_file(file.name)) throw Damaged("its manifest names the file '" + file.name + "'");
  return file;
}

StateTensor read_tensor(const json& value, size_t files) {
  StateTensor tensor{value.at("name"), {}, value.at("shape"), 0, value.at("xxh3")};
  const auto dtype = safetensors::parse_dtype(value.at("dtype").get<std::string>());
  if (!dtype) throw Damaged("its manifest has the dtype " + value.at("dtype").dump());
  tensor.dtype = *dtype;
  tensor.file = static_cast<size_t>(whole(value.at("file"), 0, static_cast<int64_t>(files) - 1));
  return tensor;
}

}  // namespace

std::string print(const Manifest& manifest) try {
  json value = {{"format", kFormat},
                {"step", manifest.step},
                {"settings", manifest.settings},
                {"files", json::array()},
                {"tensors", json::array()}};
  for (const StateFile& file : manifest.files)
    value["files"].push_back({{"name", file.name}, {"bytes", file.bytes}, {"xxh3", file.hash}});
  for (const StateTensor& tensor : manifest.tensors)
    value["tensors"].push_back({{"name", tensor.name},
                                {"dtype", to_string(tensor.dtype)},
                                {"shape", tensor.shape},
                                {"file", tensor.file},
                                {"xxh3", tensor.hash}});
  value[kCheck] = hash_hex(value.dump());
  return value.dump(1, '\t') + "\n";
} catch (const json::exception&) {
  throw UsageError("a tensor's name or a setting is no UTF-8");
}

Manifest parse_manifest(const std::string& text) try {
  json value = parse_json(text, EqualKeys::refused);
  refuse_later_format(value);
  check_sum(value);
  Manifest manifest;
  manifest.step = whole(value.at("step"), 0);
  manifest.settings = value.value("settings", Settings());
  for (const json& file : value.at("files")) manifest.files.push_back(read_file(file));
  for (const json& tensor : value.at("tensors")) manifest.tensors.push_back(read_tensor(tensor, manifest.files.size()));
  return manifest;
} catch (const json::exception&) {
  throw Damaged("its manifest is none of memtune's");
}

}  // namespace memtune::state
