// Identifies a trial by a hash of model, inputs, settings, plan, machine and program.
#pragma once

#include <filesystem>
#include <string>

#include "core/plan/request/trial_request.h"

namespace memtune::sweep {

// hash_hex of a whole file, which may be larger than memory. Throws IoError, also after a signal.
std::string hash_file(const std::filesystem::path& path);

// Hardware that results depend on: "CPU (2 cores)", or the names of the GPUs. The host's name is not part of it.
std::string machine(const std::string& device);

// Hashes the files once. After that, trials differ only by their settings.
class TrialKeyHasher {
 public:
  // `program`: memtune-trial. Throws IoError if a file cannot be read.
  TrialKeyHasher(const plan::ModelAndInputSource& model, const plan::TrainingSettings& training,
                 const std::filesystem::path& program);

  // The whole key: everything but the paths of files.
  std::string trial(const plan::TrialRequest& request) const;
  // The same without the plan: trials with the same value can be compared.
  std::string setting(plan::TrialRequest request) const;

 private:
  std::string model_, inputs_file_, program_, machine_;
};

}  // namespace memtune::sweep
