#include "core/program/blocks.h"

#include <algorithm>
#include <map>
#include <set>

#include "core/base/error.h"
#include "core/base/text.h"

namespace memtune::program {
namespace {

const std::set<std::string> kContainers = {"Sequential", "ModuleList", "ModuleDict", ""};

template <typename Visit>
void visit_ops(const Body& body, const Visit& visit) {
  for (const Op& op : body.ops) {
    visit(op);
    for (const Body& inner : op.bodies) visit_ops(inner, visit);
  }
}

// For each region: how many operators run inside it, inner regions included.
std::vector<int> operators_in_regions(const Program& program) {
  std::vector<int> count(program.regions.size());
  visit_ops(program.body, [&](const Op& op) {
    if (op.kind != OpKind::call) return;
    for (int region = op.region; region >= 0; region = program.regions[region].parent) ++count[region];
  });
  return count;
}

bool inside(const Program& program, int region, const std::set<int>& outer) {
  for (region = program.regions[region].parent; region >= 0; region = program.regions[region].parent)
    if (outer.count(region)) return true;
  return false;
}

std::vector<int> outermost(const Program& program, const std::vector<int>& regions) {
  std::set<int> all(regions.begin(), regions.end());
  std::vector<int> result;
  for (int region : regions)
    if (!inside(program, region, all)) result.push_back(region);
  return result;
}

std::vector<int> matching_regions(const Program& program, const std::string& glob) {
  std::vector<int> regions;
  std::vector<std::string> paths;
  for (size_t i = 0; i < program.regions.size(); ++i) {
    if (glob_match(glob, program.regions[i].path)) regions.push_back(static_cast<int>(i));
    if (!program.regions[i].path.empty()) paths.push_back(program.regions[i].path);
  }
  if (regions.empty())
    throw UsageError(
        "no module matches --blocks '" + glob + "'; the model has " +
        (paths.empty() ? "no submodules" : join(std::span(paths).first(std::min<size_t>(paths.size(), 8)), ", ")) +
        (paths.size() > 8 ? ", ..." : ""));
  return outermost(program, regions);
}

}  // namespace

// Of all classes that occur at least twice: the one whose regions cover most operators, the smaller regions on a tie (a
// residual block rather than the stage that holds it).
std::vector<int> find_blocks(const Program& program, const std::string& blocks) {
  if (!blocks.empty()) return matching_regions(program, blocks);
  auto operators = operators_in_regions(program);
  std::map<std::string, std::vector<int>> by_class;
  for (size_t i = 1; i < program.regions.size(); ++i)
    if (!kContainers.count(program.regions[i].type) && operators[i] > 2)
      by_class[program.regions[i].type].push_back(static_cast<int>(i));
  std::vector<int> best;
  int best_cover = 0;
  for (auto& [type, regions] : by_class) {
    auto candidates = outermost(program, regions);
    if (candidates.size() < 2) continue;
    int cover = 0;
    for (int region : candidates) cover += operators[region];
    if (cover > best_cover || (cover == best_cover && candidates.size() > best.size())) {
      best = candidates;
      best_cover = cover;
    }
  }
  return best;
}

}  // namespace memtune::program
