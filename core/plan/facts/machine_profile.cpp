#include "core/plan/facts/machine_profile.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>

#include "core/base/embedded_json_preset.h"
#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/json_object_reader.h"
#include "core/base/open_file.h"
#include "core/base/text.h"
#include "core/base/utf8.h"

namespace memtune::plan {
namespace {

using nlohmann::json;
using Basis = MachineProfile::Basis;

constexpr int kMachineVersion = 1;
constexpr char kMachines[] = "machines";
constexpr int64_t kMaxMachineBytes = int64_t{1} << 50;
constexpr double kMinRate = 1e-6, kMaxRate = 1e9;
constexpr int64_t kMaxFileBytes = int64_t{1} << 20;

// Names must be printable single lines, because tables and look-ups use them.
void check_line(const std::string& path, const std::string& text) {
  if (trim(text).empty() || printable_line(text) != text) throw UsageError(path + " must be a line of text");
}

void read_rate(JsonObjectReader& object, const char* key, double& out) {
  if (object.find(key) == nullptr) return;
  object.read(key, out);
  if (!(out >= kMinRate && out <= kMaxRate))
    throw UsageError(object.path(key) + " must be a rate from 1e-6 to 1e9, not " + json(out).dump());
}

std::map<std::string, double> read_tflops(const json& value, const std::string& path) {
  std::map<std::string, double> tflops;
  JsonObjectReader object(value, path);
  for (const std::string_view name : kArithmetic) {
    const std::string key(name);
    if (object.find(key.c_str()) != nullptr) read_rate(object, key.c_str(), tflops[key]);
  }
  object.finish();
  if (tflops.empty()) throw UsageError(path + " must have a rate");
  return tflops;
}

std::map<std::string, std::string> read_sources(const json& value, const std::string& path) {
  std::map<std::string, std::string> sources;
  JsonObjectReader object(value, path);
  for (const auto& [field, source] : value.items()) {
    check_line(path, field);
    object.read(field.c_str(), sources[field]);
    check_line(object.path(field), sources[field]);
  }
  return sources;
}

Basis read_basis(const std::string& path, const std::string& text) {
  for (const Basis basis : {Basis::datasheet, Basis::measured})
    if (text == to_string(basis)) return basis;
  throw UsageError(path + ": " + unknown_name("basis", text, std::vector<std::string>{"datasheet", "measured"}));
}

MachineProfile read(const json& value, const std::string& path) {
  MachineProfile machine;
  JsonObjectReader object(value, path);
  object.require({"version", "name", "basis", "memory_bytes", "tflops", "memory_gb_per_s"});
  int version = kMachineVersion;
  object.read("version", version, kMachineVersion, kMachineVersion);
  object.read("name", machine.name);
  check_line(object.path("name"), machine.name);
  object.read("description", machine.description);
  object.read("devices", machine.devices);
  for (const std::string& device : machine.devices) check_line(object.path("devices"), device);
  std::string basis;
  object.read("basis", basis);
  machine.basis = read_basis(object.path("basis"), basis);
  object.read("emulated", machine.emulated);
  object.read("compute_capability", machine.compute_capability, 10, 999);
  object.read("memory_bytes", machine.memory_bytes, 1, kMaxMachineBytes);
  machine.tflops = read_tflops(*object.find("tflops"), object.path("tflops"));
  read_rate(object, "memory_gb_per_s", machine.memory_gb_per_s);
  read_rate(object, "link_out_gb_per_s", machine.link_out_gb_per_s);
  read_rate(object, "link_in_gb_per_s", machine.link_in_gb_per_s);
  read_rate(object, "disk_write_gb_per_s", machine.disk_write_gb_per_s);
  read_rate(object, "disk_read_gb_per_s", machine.disk_read_gb_per_s);
  object.read("host_memory_bytes", machine.host_memory_bytes, 1, kMaxMachineBytes);
  if (const json* sources = object.find("sources")) machine.sources = read_sources(*sources, object.path("sources"));
  object.finish();
  return machine;
}

MachineProfile read_machine_file(const std::filesystem::path& path) {
  return parse_machine_profile(path.filename().string(), read_file(path, system_files(), kMaxFileBytes));
}

}  // namespace

std::string to_string(Basis basis) { return basis == Basis::measured ? "measured" : "datasheet"; }

void to_json(json& out, const MachineProfile& machine) {
  out = {{"version", kMachineVersion},         {"name", machine.name},
         {"description", machine.description}, {"devices", machine.devices},
         {"basis", to_string(machine.basis)},  {"memory_bytes", machine.memory_bytes},
         {"tflops", machine.tflops},           {"memory_gb_per_s", machine.memory_gb_per_s},
         {"sources", machine.sources}};
  if (machine.emulated) out["emulated"] = true;
  const auto add = [&](const char* key, auto value) {
    if (value > 0) out[key] = value;
  };
  add("compute_capability", machine.compute_capability);
  add("link_out_gb_per_s", machine.link_out_gb_per_s);
  add("link_in_gb_per_s", machine.link_in_gb_per_s);
  add("disk_write_gb_per_s", machine.disk_write_gb_per_s);
  add("disk_read_gb_per_s", machine.disk_read_gb_per_s);
  add("host_memory_bytes", machine.host_memory_bytes);
}

void from_json(const json& value, MachineProfile& machine) { machine = read(value, "machine"); }

MachineProfile parse_machine_profile(const std::string& name, std::string_view text) {
  return read(parse_json_object(name, text), name);
}

std::vector<std::string> machine_names() {
  std::vector<std::string> names;
  for (const EmbeddedJsonPreset& profile : profiles())
    if (profile.kind == kMachines) names.emplace_back(profile.name);
  return names;
}

MachineProfile find_machine(const std::string& name_or_file) {
  const std::vector<std::string> known = machine_names();
  if (std::ranges::count(known, name_or_file) > 0)
    return parse_machine_profile(name_or_file, find_profile(kMachines, name_or_file).json);
  const std::filesystem::path path = name_or_file;
  std::error_code cannot;
  if (std::filesystem::is_regular_file(path, cannot)) return read_machine_file(path);
  if (const std::string other = other_than_file(path); !other.empty())
    throw UsageError("'" + name_or_file + "' is " + other + "; a regular file is needed");
  if (path.has_parent_path() || path.extension() == ".json") throw UsageError("no such machine file: " + name_or_file);
  throw UsageError(unknown_name("machine", name_or_file, known));
}

std::optional<MachineProfile> machine_of_device(std::string_view device) {
  for (const std::string& name : machine_names()) {
    MachineProfile machine = find_machine(name);
    if (std::ranges::count(machine.devices, device) > 0) return machine;
  }
  return {};
}

}  // namespace memtune::plan
