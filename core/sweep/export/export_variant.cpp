#include "core/sweep/export/export_variant.h"

#include <algorithm>

#include "core/answer/report/alternatives.h"
#include "core/answer/result/work_normalized_trial_comparator.h"
#include "core/answer/run/run_directory.h"
#include "core/answer/trainer/rendered_python_plan.h"
#include "core/answer/trainer/trainer_config_variants.h"
#include "core/base/bytes.h"
#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/layout.h"
#include "core/base/shell_line.h"
#include "core/base/text.h"

namespace memtune::sweep {
namespace {

using result::TrialResultRow;

std::string measured_text(const TrialResultRow& row) {
  return row.measurement.strategy + " took " + ms_text(row.measurement.step_ms.median) + " a step and " +
         format_bytes(peak(row)) + " at the peak with your command";
}

class VariantExport {
 public:
  VariantExport(const RunDirectoryWithReport& run, const VariantExportOptions& options)
      : run_(run), options_(options), sweep_(*run.directory.read_record().command) {}

  std::string plan() const {
    const TrialResultRow& row = chosen(true);
    const trainer::RegeneratedPythonPlan copy = copied(row);
    if (!copy.same)
      options_.say("warning: " + row.python +
                   " is not what this memtune writes (of another version, or changed since): only its data "
                   "are exported, with the code of this memtune");
    options_.say(measured_text(row));
    if (!row.config.empty())
      options_.say("use the plan with " + row.config +
                   ", whose own checkpointing and offloading were measured with it");
    options_.say("next: " + put_to_work());
    return copy.text;
  }

  std::string keys() const {
    if (sweep_.trainer.empty())
      throw UsageError("'" + options_.path +
                       "' is the sweep of a training command, whose answer is a command: memtune report " +
                       options_.path + " --format json has it as \"command\" of the trial");
    if (sweep_.trainer != options_.trainer)
      throw UsageError("'" + options_.path + "' is a sweep of " + sweep_.trainer + "'s settings: --trainer " +
                       sweep_.trainer + " writes them");
    const TrialResultRow& row = chosen(false);
    options_.say(measured_text(row));
    if (!options_.into.empty()) return into(row.measurement.strategy);
    if (row.config.empty()) return shell_line(row.command) + "\n";
    options_.say("this is the whole configuration as stored in " + options_.path +
                 "; --into FILE writes its memory settings into yours");
    return read_file(row.config, run_.directory.files());
  }

 private:
  trainer::RegeneratedPythonPlan copied(const TrialResultRow& row) const try {
    return trainer::copy_python_plan(read_file(row.python, run_.directory.files()), row, run_.report);
  } catch (const UsageError& error) {
    throw UsageError(row.python + " is no plan that this memtune reads (" + error.what() +
                     "): the same sweep into another folder writes it");
  }

  // The row that --strategy names, otherwise the best.
  const TrialResultRow& chosen(bool planned) const {
    if (options_.strategy.empty()) return best(planned);
    const TrialResultRow& row = find_row(run_.report, options_.strategy);
    if (row.python.empty() == planned)
      throw UsageError("'" + row.measurement.strategy + "' was " +
                       (planned ? "not run under a plan in Python: --trainer " + sweep_.trainer + " writes its settings"
                                : "run under a plan: --trainer python writes it"));
    if (!result::usable(row.measurement))
      throw UsageError("'" + row.measurement.strategy + "' did not work: " + row.measurement.reason);
    return row;
  }

  const TrialResultRow& best(bool planned) const {
    for (const report::BestTrialWithTrainerSettingsOrPythonPlan& alternative : report::alternatives(run_.report)) {
      if (alternative.by_plan != planned) continue;
      if (alternative.fits) return *alternative.row;
      throw UsageError("'" + options_.path + "' recommends " + (planned ? "no plan in Python" : "no setting") + ": " +
                       alternative.text + (alternative.row ? "; --strategy NAME writes one anyway" : ""));
    }
    const TrialResultRow& row = find_row(run_.report, "");  // no plan was looked for: the recommended row
    if (planned)
      throw UsageError("'" + options_.path +
                       "' has no plan: memtune sweep --model or --config with what the command "
                       "trains, and without --all-settings, makes one");
    return row;
  }

  // Makes the same change in another config; fails if that has it already.
  std::string into(const std::string& name) const {
    trainer::TrainerConfigVariantGenerationOptions settings;
    settings.optimizer = true;
    settings.command = sweep_.command;
    const trainer::TrainerConfigVariants space =
        trainer::make_space(sweep_.trainer, read_file(options_.into), options_.into, settings);
    const auto variant = std::ranges::find(space.variants, name, &trainer::TrainerConfigVariant::name);
    if (variant != space.variants.end()) return variant->config;
    const auto skipped = std::ranges::find(space.skipped, name, &trainer::SkippedTrainerConfigVariant::name);
    const std::string same = "the same as ";
    if (skipped != space.skipped.end() && skipped->reason.starts_with(same)) {
      const std::string other = skipped->reason.substr(same.size());
      const auto has = std::ranges::find(space.variants, other, &trainer::TrainerConfigVariant::name);
      if (has != space.variants.end()) return has->config;
    }
    throw UsageError("'" + name + "' cannot be written into " + options_.into +
                     (skipped == space.skipped.end() ? "" : ": " + skipped->reason));
  }

  std::string put_to_work() const {
    if (sweep_.trainer == "axolotl")
      return "plugins: [memtune_plan.AxolotlPlugin] in its YAML, the file where it is started";
    if (sweep_.trainer == "transformers" || sweep_.trainer == "trl")
      return "import memtune_plan; callbacks=[memtune_plan.PlanCallback()] of the trainer";
    return "import memtune_plan; memtune_plan.apply(model) before the first step";
  }

  const RunDirectoryWithReport& run_;
  const VariantExportOptions& options_;
  const CommandSweepSettingsAndVariants sweep_;
};

}  // namespace

std::string exported_variant(const RunDirectoryWithReport& run, const VariantExportOptions& options) {
  const VariantExport variant(run, options);
  return options.trainer == "python" ? variant.plan() : variant.keys();
}

}  // namespace memtune::sweep
