#include "core/measure/trial/loaded_steps.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <vector>

#include "core/base/error.h"
#include "core/engine/disk/disk_load.h"
#include "core/record/measurement/measurement.h"

namespace memtune::trial {
namespace {

constexpr double kLoadedShare = 0.8;  // of a step, during which copies run
constexpr int kLeastLoadedSteps = 3, kMostLoadedSteps = 8;
constexpr double kLoadedMs = 3000;                  // enough time for such steps
constexpr int64_t kDiskBytes = int64_t{256} << 20;  // to measure a disk with
constexpr double kDiskMs = 300;                     // for each direction, at least

void untold(const Error& error) { std::fprintf(stderr, "the disk's speed was not recorded: %s\n", error.what()); }

// Null if the disk cannot be used, which stderr says.
std::unique_ptr<disk::DiskLoad> disk_load(const plan::TrainingSettings& training) try {
  disk::StoreSettings settings;
  settings.directory = training.scratch;
  settings.budget_bytes = training.disk_budget_bytes;
  settings.allow_memory = training.scratch_in_memory;
  const int64_t budget = training.disk_budget_bytes;
  return std::make_unique<disk::DiskLoad>(settings, budget > 0 ? std::min(kDiskBytes, budget) : kDiskBytes);
} catch (const Error& error) {
  untold(error);
  return nullptr;
}

}  // namespace

std::unique_ptr<profiler::LinkLoad> LoadedSteps::make_copies(device::Device& device, const profiler::Link& link,
                                                             double step_ms) {
  if (device.emulated()) return nullptr;
  return std::make_unique<profiler::LinkLoad>(device, link, kLoadedShare * step_ms);
}

double LoadedSteps::step_beside_copies() {
  if (copies_) copies_->start();
  return step_();
}

double LoadedSteps::copy_slowdown() {
  if (!copies_) return 0;
  step_beside_copies();
  std::vector<double> longer;
  double spent_ms = 0;
  for (int i = 0; i < kMostLoadedSteps && (i < kLeastLoadedSteps || spent_ms < kLoadedMs); ++i) {
    const double plain = step_(), loaded = step_beside_copies();
    longer.push_back(loaded - plain);
    spent_ms += plain + loaded;
  }
  return std::clamp(result::summarize(longer).median / copies_->ms(), 0.0, 1.0);
}

void LoadedSteps::measure_disk(const plan::TrainingSettings& training, plan::StepCosts& costs) {
  if (training.scratch.empty()) return;
  const std::unique_ptr<disk::DiskLoad> load = disk_load(training);
  if (runner_.any_rank(load == nullptr)) return;
  // The same number on each rank, because a step involves all ranks.
  const double slowest_ms = std::ranges::max(runner_.of_all_ranks({step_ms_}));
  const int steps = static_cast<int>(std::clamp(std::ceil(kDiskMs / slowest_ms), 1.0, 100.0));
  for (auto [kind, speed] : {std::pair{disk::DiskLoad::Kind::write, &costs.disk_write_gb_per_s},
                             std::pair{disk::DiskLoad::Kind::read, &costs.disk_read_gb_per_s}}) {
    load->start(kind);
    for (int i = 0; i < steps; ++i) step_beside_copies();
    try {
      *speed = load->stop();
    } catch (const Error& error) {
      untold(error);
    }
  }
}

}  // namespace memtune::trial
