#include "core/measure/trial/compute_copy_disk_interference_probe.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <vector>

#include "core/base/error.h"
#include "core/base/median.h"
#include "core/engine/disk/disk_load_generator.h"

namespace memtune::trial {
namespace {

constexpr double kLoadedShare = 0.8;  // of a step, during which copies run
constexpr int kMinLoadedSteps = 3, kMaxLoadedSteps = 8;
constexpr double kLoadedMs = 1000;                  // enough time for such steps
constexpr int64_t kDiskBytes = int64_t{256} << 20;  // to measure a disk with
constexpr double kDiskMs = 300;                     // for each direction, at least

void untold(const Error& error) { std::fprintf(stderr, "the disk's speed was not recorded: %s\n", error.what()); }

// Null if the disk cannot be used, which stderr says.
std::unique_ptr<disk::DiskLoadGenerator> disk_load(const plan::TrainingSettings& training) try {
  disk::ScratchBlockStoreSettings settings;
  settings.directory = training.scratch;
  settings.budget_bytes = training.disk_budget_bytes;
  settings.allow_memory = training.scratch_in_memory;
  const int64_t budget = training.disk_budget_bytes;
  return std::make_unique<disk::DiskLoadGenerator>(settings, budget > 0 ? std::min(kDiskBytes, budget) : kDiskBytes);
} catch (const Error& error) {
  untold(error);
  return nullptr;
}

}  // namespace

std::unique_ptr<profiler::LinkLoadGenerator> ComputeCopyDiskInterferenceProbe::make_copies(
    device::Device& device, const profiler::LinkBandwidth& link, double step_ms) {
  if (device.emulated()) return nullptr;
  return std::make_unique<profiler::LinkLoadGenerator>(device, link, kLoadedShare * step_ms);
}

double ComputeCopyDiskInterferenceProbe::step_with_copies() {
  if (copies_) copies_->start();
  return step_();
}

double ComputeCopyDiskInterferenceProbe::copy_slowdown() {
  if (!copies_) return 0;
  step_with_copies();
  std::vector<double> longer;
  double spent_ms = 0;
  for (int i = 0; i < kMaxLoadedSteps && (i < kMinLoadedSteps || spent_ms < kLoadedMs); ++i) {
    const double plain = step_(), loaded = step_with_copies();
    longer.push_back(loaded - plain);
    spent_ms += plain + loaded;
  }
  return std::clamp(median(std::move(longer)) / copies_->ms(), 0.0, 1.0);
}

void ComputeCopyDiskInterferenceProbe::measure_disk(const plan::TrainingSettings& training,
                                                    plan::RecordedStepCosts& costs) {
  if (training.scratch.empty()) return;
  const std::unique_ptr<disk::DiskLoadGenerator> load = disk_load(training);
  if (runner_.any_rank(load == nullptr)) return;
  // The same number on each rank, because a step involves all ranks.
  const double slowest_ms = std::ranges::max(runner_.gather_from_ranks({step_ms_}));
  const int steps = static_cast<int>(std::clamp(std::ceil(kDiskMs / slowest_ms), 1.0, 100.0));
  for (auto [kind, speed] : {std::pair{disk::DiskLoadGenerator::Kind::write, &costs.disk_write_gb_per_s},
                             std::pair{disk::DiskLoadGenerator::Kind::read, &costs.disk_read_gb_per_s}}) {
    load->start(kind);
    for (int i = 0; i < steps; ++i) step_with_copies();
    try {
      *speed = load->stop();
    } catch (const Error& error) {
      untold(error);
    }
  }
}

}  // namespace memtune::trial
