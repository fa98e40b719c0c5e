#include "core/sweep/predict/steps_on_shapes.h"

#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>
#include <variant>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/temporary_folder.h"
#include "core/base/text.h"
#include "core/measure/process/interrupt.h"
#include "core/sweep/proposals/recorded_costs.h"

namespace memtune::sweep {
namespace {

using nlohmann::json;

constexpr int kSettlingSteps = 2;  // until the allocator's segments are those of every later step

plan::TrialRequest request_of(const EngineSweepSettings& settings, const plan::MachineProfile& card,
                              const std::filesystem::path& folder) {
  plan::TrialRequest request = settings.request;
  request.training.device = "shapes:" + std::to_string(card.compute_capability);
  if (!settings.batches.empty()) request.training.batch = settings.batches.front();
  if (!settings.sequences.empty()) request.training.sequence = settings.sequences.front();
  request.plan.strategy = "none";
  request.envelope.costs = folder / "costs.json";
  return request;
}

// `command`: of memtune-trial. Files of its answer are in the folder.
TrialAnswer answer_of(const char* command, const plan::TrialRequest& request, const TemporaryFolder& folder,
                      const EngineSweepSettings& settings,
                      const std::function<void(const TrialPhaseProgress&)>& progress = {}) {
  const std::filesystem::path file = folder.path() / "request.json";
  write_file(file, json(request).dump() + "\n");
  return run_trial_process({{command, file.string()}, folder.path() / "log.txt", settings.limit, progress});
}

}  // namespace

std::optional<ShapeOnlyStepFactsAndCosts> record_on_shapes(
    const EngineSweepSettings& settings, const plan::MachineProfile& card,
    const std::function<void(const TrialPhaseProgress&)>& progress) {
  if (card.compute_capability == 0)
    throw UsageError("machine '" + card.name + "' has no compute_capability, which decides on kernels");
  const TemporaryFolder folder("fit");
  const TrialAnswer answer =
      answer_of("inspect", request_of(settings, card, folder.path()), folder, settings, progress);
  if (process::interrupted()) return {};
  if (const auto* mistake = std::get_if<ReceivedUsageError>(&answer)) throw UsageError(mistake->message);
  if (const auto* failure = std::get_if<ProcessFailure>(&answer))
    throw UsageError("this model cannot be predicted from its shapes: " + failure->reason +
                     "; memtune sweep on a GPU measures it");
  const auto* model = std::get_if<ModelInspectionResult>(&answer);
  if (model == nullptr) throw Error("memtune-trial inspect gave another answer");
  std::string why = "its costs are out of range";
  const std::optional<plan::RecordedStepCosts> costs = read_costs(folder.path(), model->program, &why);
  if (!costs) throw UsageError("this model cannot be predicted from its shapes: " + why);
  return ShapeOnlyStepFactsAndCosts{model->program, join(model->inputs, ", "), *costs};
}

bool runs_on_shapes(const plan::Plan& plan) { return !plan.offloads_activations() && !plan.offloads_states(); }

std::optional<ShapeOnlyStepPeakBytes> run_on_shapes(const EngineSweepSettings& settings,
                                                    const plan::MachineProfile& card, const plan::Plan& plan) {
  const TemporaryFolder folder("fit");
  plan::TrialRequest request = request_of(settings, card, folder.path());
  request.plan = plan;
  request.envelope.costs.clear();
  request.envelope.round = 1;  // compares and traces nothing
  request.training.warmup = kSettlingSteps;
  request.training.steps = 1;
  const TrialAnswer answer = answer_of("run", request, folder, settings);
  const auto* measured = std::get_if<result::TrialMeasurement>(&answer);
  if (measured == nullptr || measured->outcome != result::TrialOutcome::ok) return {};
  return ShapeOnlyStepPeakBytes{measured->peak_bytes.allocated, measured->peak_bytes.reserved};
}

}  // namespace memtune::sweep
