// memtune-every-plan COSTS FACTS MOST DIR: writes a plan file to DIR for each combination of block options, with at
// most MOST options per block. COSTS is a trial's costs.json, FACTS the sweep.json of its run.
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "core/plan/planner/block_options.h"
#include "core/plan/planner/costs_without_recompute.h"

using namespace memtune;
using nlohmann::json;

namespace {

json read(const std::filesystem::path& file) {
  std::ifstream stream(file);
  return json::parse(stream);
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 5) return 2;
  const plan::ProgramFacts facts = read(arguments[2])["facts"];
  const plan::RecordedStepCosts costs =
      planner::costs_without_recompute(facts, read(arguments[1]).get<plan::RecordedStepCosts>());
  const std::filesystem::path folder = arguments[4];
  const plan::OpMemoryAccessGraph graph(facts);
  const planner::BlockOptionGenerationSettings limits{.most = std::atoi(arguments[3])};
  const auto parts = planner::block_options(facts, graph, costs, limits);
  std::set<std::string> seen;
  std::vector<size_t> choice(parts.size());
  for (size_t part = 0; part < parts.size();) {
    std::vector<planner::BlockOption> chosen;
    for (size_t i = 0; i < parts.size(); ++i) chosen.push_back(parts[i].options[choice[i]]);
    const std::string name = "choice-" + std::to_string(seen.size());
    json plan = planner::plan_of_options(chosen, facts, graph, limits, "");
    if (seen.insert(plan.dump()).second) {
      plan["strategy"] = name;
      std::ofstream(folder / (name + ".json")) << plan.dump();
    }
    for (part = 0; part < parts.size() && ++choice[part] == parts[part].options.size(); ++part) choice[part] = 0;
  }
  std::printf("%zu\n", seen.size());
}
