// What makes two trials the same trial: model, inputs, settings, plan, machine and program, as one hash.
#pragma once

#include <filesystem>
#include <string>

#include "core/config/trial_request.h"

namespace memtune::sweep {

// As base's hash_hex, of a whole file that may be larger than memory. Throws IoError.
std::string hash_file(const std::filesystem::path& path);

// What results are tied to: "CPU (2 cores)", the names of the GPUs. Says nothing of the host's name.
std::string machine(const std::string& device);

// Hashes files once; trials then differ by their settings alone.
class TrialKeys {
 public:
  // `program` is memtune-trial. Throws IoError when a file cannot be read.
  TrialKeys(const config::TrialRequest& request, const std::filesystem::path& program);

  // The whole key: everything but where files lie.
  std::string trial(const config::TrialRequest& request) const;
  // The same without the plan: trials that share it can be compared.
  std::string setting(config::TrialRequest request) const;

 private:
  std::string model_, inputs_file_, program_, machine_;
};

}  // namespace memtune::sweep
