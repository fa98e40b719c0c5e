// What a machine that trains can do, in numbers: a step that one measured is worked out for another from the profiles
// of both. Those shipped are profiles/machines/*.json; `memtune doctor --probe` measures one. Plain data; its file is
// JSON.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace memtune::config {

struct MachineProfile {
  // What arithmetic and memory rates are: the maker's peaks, or what large operations reached.
  enum class Basis { datasheet, measured };

  std::string name;
  std::string description;           // for people
  std::vector<std::string> devices;  // names by which such a device calls itself: "NVIDIA H200"
  Basis basis = Basis::datasheet;
  bool emulated = false;                 // the processor plays the device: its rates say nothing of a GPU
  int64_t memory_bytes = 0;              // of the device, in all, as it is reported to programs
  std::map<std::string, double> tflops;  // 1e12 a second, dense, by a name of kArithmetic; two a multiply-add
  double memory_gb_per_s = 0;            // of the device, 1e9 bytes read or written
  double link_out_gb_per_s = 0, link_in_gb_per_s = 0;      // of page-locked copies; 0: not known
  double disk_write_gb_per_s = 0, disk_read_gb_per_s = 0;  // 0: not known
  int64_t host_memory_bytes = 0;                           // 0: not known
  std::map<std::string, std::string> sources;              // where the numbers come from, by field

  bool operator==(const MachineProfile&) const = default;
};

inline constexpr std::string_view kArithmetic[] = {"float32", "tf32", "float16", "bfloat16"};

std::string to_string(MachineProfile::Basis basis);

void to_json(nlohmann::json& json, const MachineProfile& machine);
// As a person may have written it: UsageError naming the field.
void from_json(const nlohmann::json& json, MachineProfile& machine);
MachineProfile parse_machine_profile(const std::string& name, std::string_view text);

std::vector<std::string> machine_names();  // of the profiles shipped

// A shipped profile by its name, else a file. UsageError, which names the known ones where it is neither.
MachineProfile find_machine(const std::string& name_or_file);

// The shipped profile of which a device called so is one.
std::optional<MachineProfile> machine_of_device(std::string_view device);

}  // namespace memtune::config
