// Hardware rates of a machine. The step simulator predicts a step on one machine from costs measured on another, by the
// profiles of both. Profiles ship in profiles/machines/*.json; `memtune doctor --probe` measures one. Plain data,
// stored as JSON.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace memtune::plan {

struct MachineProfile {
  // Origin of the arithmetic and memory rates: the vendor's peaks, or rates that large operations reached.
  enum class Basis { datasheet, measured };

  std::string name;
  std::string description;           // for people
  std::vector<std::string> devices;  // device names as the driver reports them: "NVIDIA H200"
  Basis basis = Basis::datasheet;
  bool emulated = false;                 // the CPU emulates the device, so the rates do not describe a GPU
  int64_t compute_capability = 0;        // ten times CUDA's: 89 for 8.9; 0: not known
  int64_t memory_bytes = 0;              // total device memory as the driver reports it
  std::map<std::string, double> tflops;  // by name in kArithmetic; dense; a multiply-add is two operations
  double memory_gb_per_s = 0;            // device memory bandwidth, 1e9 bytes read or written per second
  double link_out_gb_per_s = 0, link_in_gb_per_s = 0;      // of page-locked copies; 0: not known
  double disk_write_gb_per_s = 0, disk_read_gb_per_s = 0;  // 0: not known
  int64_t host_memory_bytes = 0;                           // 0: not known
  std::map<std::string, std::string> sources;              // origin of each number, by field

  bool operator==(const MachineProfile&) const = default;
};

inline constexpr std::string_view kArithmetic[] = {"float32", "tf32", "float16", "bfloat16"};

std::string to_string(MachineProfile::Basis basis);

void to_json(nlohmann::json& json, const MachineProfile& machine);
// For files that people write: throws UsageError that names the field.
void from_json(const nlohmann::json& json, MachineProfile& machine);
MachineProfile parse_machine_profile(const std::string& name, std::string_view text);

std::vector<std::string> machine_names();  // of the shipped profiles

// Returns a shipped profile by name, else reads a file. Throws UsageError with the known names if there is neither.
MachineProfile find_machine(const std::string& name_or_file);

// Returns the shipped profile that lists this device name.
std::optional<MachineProfile> machine_of_device(std::string_view device);

}  // namespace memtune::plan
