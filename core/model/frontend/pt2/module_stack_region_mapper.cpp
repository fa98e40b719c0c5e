#include "core/model/frontend/pt2/module_stack_region_mapper.h"

#include "core/model/pt2/pt2_graph.h"

namespace memtune::frontend {

void ModuleStackRegionMapper::enter(ProgramEmitter& emit, const std::string& stack) {
  const auto known = known_.find(stack);
  const int region = known != known_.end() ? known->second : find(emit, stack);
  known_.emplace(stack, region);
  if (region >= 0) emit.set_region(region);
}

// Returns -1 if the stack names no module.
int ModuleStackRegionMapper::find(ProgramEmitter& emit, const std::string& stack) {
  int region = -1;
  std::string keys = "keys";
  for (const model::Pt2ModuleStackEntry& module : model::module_stack(stack)) {
    if (module.path.empty()) {
      program_.regions[0].type = module.type;
      region = 0;
      continue;
    }
    keys += ";" + module.key;
    const auto [known, is_new] = known_.emplace(keys, 0);
    if (is_new) known->second = emit.add_region(std::max(region, 0), module.path, module.type);
    region = known->second;
  }
  return region;
}

}  // namespace memtune::frontend
