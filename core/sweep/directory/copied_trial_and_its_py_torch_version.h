// Takes over a trial that another run beside this one has measured, so that a second question does not measure it
// again.
#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>

#include "core/answer/run/run_directory.h"

namespace memtune::sweep {

struct CopiedTrialAndItsPyTorchVersion {
  SweepTrialEntry spec;
  std::string torch;  // version of PyTorch in the run that measured it; "": unknown
};

// Copies the first trial with the key of `spec` that worked in one of `runs` to a new folder of `to`, with the
// references of its run. Runs of another minor release of PyTorch than `torch` are passed over, if both are known.
// Large files are hard links: no run changes a file in place. Nothing if no run has it, or if files cannot be copied.
// Its measurement is then in the returned folder.
std::optional<CopiedTrialAndItsPyTorchVersion> adopt_trial(const RunDirectory& to,
                                                           std::span<const std::filesystem::path> runs,
                                                           SweepTrialEntry spec, const std::string& torch);

}  // namespace memtune::sweep
