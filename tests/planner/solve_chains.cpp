// memtune-solve-chains: reads one JSON object per line and prints one per line. {"blocks", "options", "jitter",
// "share", "host", "seed"} makes a chain (made_up_chains.h; jitter null: random). The budget is "share" of one that
// keeps everything; a random chain gets it on top of the least budget. Host memory is "host" of all bytes that can be
// offloaded (0: no limit). The output has the chain and the solver's answer; with "choice", the cost of that choice.
#include <exception>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/plan/planner/chain_planning_problem.h"
#include "core/plan/planner/chain_solver.h"
#include "tests/planner/made_up_chains.h"

using namespace memtune::planner;
using nlohmann::json;

namespace {

ChainPlanningProblem chain_of(const json& asked) {
  MadeUpChains made(asked.at("seed").get<uint32_t>());
  const int blocks = asked.at("blocks").get<int>(), options = asked.at("options").get<int>();
  const bool is_random = asked.at("jitter").is_null();
  ChainPlanningProblem chain =
      is_random ? made.random(blocks, options) : made.decoder(blocks, options, asked.at("jitter").get<double>());
  const int64_t all = is_random ? made.resident_most(chain) : chain.budget_bytes;
  chain.budget_bytes = static_cast<int64_t>(asked.at("share").get<double>() * static_cast<double>(all));
  if (is_random) chain.budget_bytes += least_budget(chain).value_or(0);
  chain.host_budget_bytes =
      static_cast<int64_t>(asked.at("host").get<double>() * static_cast<double>(made.moved_most(chain)));
  return chain;
}

json printed(const ChainPlanningProblem& chain) {
  json blocks = json::array();
  for (const ChainBlockTimesAndOptions& block : chain.blocks) {
    json options = json::array();
    for (const ChainBlockOptionCosts& one : block.options)
      options.push_back({{"resident", one.resident_bytes},
                         {"moved", one.offloaded_bytes},
                         {"recompute", one.recompute_ms},
                         {"forward_peak", one.forward_peak_bytes},
                         {"backward_peak", one.backward_peak_bytes}});
    blocks.push_back({{"forward", block.forward_ms}, {"backward", block.backward_ms}, {"options", options}});
  }
  return {{"blocks", blocks},
          {"out", chain.out_bytes_per_ms},
          {"in", chain.in_bytes_per_ms},
          {"budget", chain.budget_bytes},
          {"host", chain.host_budget_bytes}};
}

json answered(const json& asked) {
  const ChainPlanningProblem chain = chain_of(asked);
  if (asked.contains("choice")) {
    const ChainSimulationResult cost = simulate(chain, asked.at("choice").get<std::vector<int>>());
    return {{"fits", cost.fits}, {"ms", cost.ms}};
  }
  json answer = {{"chain", printed(chain)}, {"bound", lower_bound_ms(chain)}, {"choice", nullptr}};
  if (const std::vector<ChainSolution> plans = solve_best(chain, 1); !plans.empty()) {
    answer["choice"] = plans.front().choice;
    answer["ms"] = plans.front().cost.ms;
  } else {
    answer["bound"] = nullptr;
  }
  return answer;
}

}  // namespace

int main() {
  try {
    for (std::string line; std::getline(std::cin, line);) std::cout << answered(json::parse(line)) << std::endl;
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 2;
  }
}
