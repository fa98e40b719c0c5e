#include "core/sweep/predict/fastest_fitting_strategy_config_keys.h"

#include <algorithm>
#include <optional>

#include "core/answer/trainer/rendered_config.h"
#include "core/answer/trainer/strategy_config_translator.h"
#include "core/answer/trainer/trainers.h"
#include "core/plan/strategy/strategy.h"

namespace memtune::sweep {

FastestFittingStrategyConfigKeys config_keys_of_fit(const GpuStrategyFitsAndPlan& fit, const std::string& trainer,
                                                    const std::string& config, const std::string& name, int blocks) {
  using trainer::EditableUserTrainerSettings;
  const trainer::TrainerProfileAndPackageVersions known = trainer::known_trainer(trainer, {});
  const EditableUserTrainerSettings own(known.profile, config, name, {}, known.releases,
                                        EditableUserTrainerSettings::Absent::allowed);
  const trainer::StrategyConfigTranslator translator(known.profile, own, known.releases, blocks);
  FastestFittingStrategyConfigKeys keys{trainer + " " + known.releases.at(known.package), "", "", {}};
  std::vector<const StrategyGpuMemoryFit*> fitting;
  for (const StrategyGpuMemoryFit& row : fit.strategies)
    if (row.fits) fitting.push_back(&row);
  std::ranges::stable_sort(fitting, {}, &StrategyGpuMemoryFit::most_ms);
  for (const StrategyGpuMemoryFit* row : fitting) {
    const std::optional<plan::Strategy> strategy = plan::Strategy::of_name(row->strategy);
    std::string why;
    const auto found = strategy ? translator.keys_of(*strategy, why) : std::nullopt;
    if (!found) {
      if (!why.empty()) keys.notes.push_back(row->strategy + ": " + why);
      continue;
    }
    const EditableUserTrainerSettings empty(known.profile, "", "", {}, known.releases,
                                            EditableUserTrainerSettings::Absent::allowed);
    keys.strategy = row->strategy;
    keys.text = trainer::render_config(known, empty, found->changes, {}).text;
    keys.notes.insert(keys.notes.end(), found->notes.begin(), found->notes.end());
    return keys;
  }
  return keys;
}

}  // namespace memtune::sweep
