#include "core/trainer/config.h"

#include <algorithm>

#include "core/base/text.h"

namespace memtune::trainer {

using config::Parameter;
using config::Place;
using config::Strategy;
using config::StrategyPart;

Wanted::Wanted(const Strategy& strategy, int blocks)
    : part(strategy.parts().front()), joined(strategy.parts()), blocks(blocks) {
  const auto chosen = std::ranges::find_if_not(joined, &StrategyPart::is_offload);
  std::rotate(joined.begin(), chosen == joined.end() ? joined.begin() : chosen, joined.end());
  part = joined.front();
  joined.erase(joined.begin());
}

bool Wanted::moves_inputs() const {
  if (part.is_offload()) return false;
  const bool moved = part.has(Parameter::inputs) && part.place(Parameter::inputs) != Place::keep;
  return moved || std::ranges::any_of(joined, &StrategyPart::is_offload);
}

void note_fixed_settings(const Wanted& wanted, const std::string& habit, Config& config) {
  std::vector<std::string> fixed;
  for (const Parameter parameter : wanted.part.changed()) fixed.push_back(wanted.part.setting(parameter));
  if (wanted.part.is_offload() && !fixed.empty())
    config.notes.push_back(join(fixed, ", ") + ": there are no keys for it; " + habit);
}

Strategy without_losses(const Wanted& wanted) {
  StrategyPart part(wanted.part.info(), wanted.part.every());
  if (part.has(Parameter::save)) part.set(Parameter::save, wanted.part.text(Parameter::save));
  if (part.has(Parameter::inputs) && wanted.moves_inputs()) part.set(Parameter::inputs, "host");
  return Strategy(part);
}

void note_losses(const Wanted& wanted, const std::string& trainer, Config& config) {
  const StrategyPart& part = wanted.part;
  const size_t before = config.notes.size();
  if (part.is_checkpoint() && !part.blocks().all())
    config.notes.push_back(part.setting(Parameter::blocks) + ": there are no keys for it; " + trainer +
                           " treats all blocks alike");
  if (part.has(Parameter::segment) && part.count(Parameter::segment) > 1)
    config.notes.push_back(part.setting(Parameter::segment) + ": " + trainer +
                           " has no nested checkpoints; every block's inputs stay");
  if (part.has(Parameter::inputs) && part.place(Parameter::inputs) == Place::disk)
    config.notes.push_back("inputs=disk: " + trainer + " has no disk that works, so they wait in host memory");
  const std::string name = to_string(StrategyPart(part.info(), part.every()));
  for (const StrategyPart& other : wanted.joined)
    config.notes.push_back(to_string(other) + ": there are no keys for it beside " + name +
                           (other.is_offload() && !part.is_offload() ? "; only the inputs of blocks are moved" : ""));
  if (config.notes.size() > before && !config.nearest) config.nearest = without_losses(wanted);
}

}  // namespace memtune::trainer
