#include "core/model/program/blocks.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <set>
#include <unordered_set>

#include "core/base/error.h"
#include "core/base/text.h"
#include "core/model/program/grad_scopes.h"

namespace memtune::program {
namespace {

const std::set<std::string> kContainers = {"Sequential", "ModuleList", "ModuleDict", ""};

// Share of a stage's arithmetic that its inner blocks must cover to replace it.
constexpr double kMaxStage = 0.6;
// Share of the program's arithmetic that blocks must cover.
constexpr double kMinCover = 1.0 / 3;

template <typename Visit>
void visit_ops(const ProgramOrControlFlowBody& body, const Visit& visit) {
  for (const Op& op : body.ops) {
    visit(op);
    for (const ProgramOrControlFlowBody& inner : op.bodies) visit_ops(inner, visit);
  }
}

bool is_arithmetic(plan::OpClass op_class) {
  return plan::is_matmul(op_class) || op_class == plan::OpClass::attention || op_class == plan::OpClass::recurrent ||
         op_class == plan::OpClass::linear_algebra;
}

// "layers.3.mlp2" -> "layers.#.mlp#", which all members of a list share.
std::string pattern_of(const std::string& path) {
  std::string pattern;
  for (const char c : path) {
    const bool digit = std::isdigit(static_cast<unsigned char>(c)) != 0;
    if (!digit) pattern += c;
    if (digit && !pattern.ends_with('#')) pattern += '#';
  }
  return pattern;
}

std::string last_part(const std::string& path) { return path.substr(path.rfind('.') + 1); }

// Checks whether an output of region `from` reaches region `to`. Blocks of a stage form a chain; experts of one layer
// do not.
class ChainPlanningProblem {
 public:
  ChainPlanningProblem(const Program& program, int from, int to) : program_(program), from_(from), to_(to) {
    visit(program.body);
  }
  bool reaches() const { return reaches_; }

 private:
  bool inside(int region, int outer) const {
    while (region > outer) region = program_.regions[region].parent;
    return region == outer;
  }
  bool is_reached(Slot slot) const { return reached_.count(slot) > 0; }

  void visit(const ProgramOrControlFlowBody& body) {
    for (const Op& op : body.ops) {
      if (reaches_) return;
      const bool reads =
          std::any_of(op.inputs.begin(), op.inputs.end(), [this](Slot slot) { return is_reached(slot); });
      reaches_ = reads && inside(op.region, to_);
      if (reads || inside(op.region, from_)) reach(op);
      for (const ProgramOrControlFlowBody& inner : op.bodies) visit_inner(op, inner);
    }
  }

  // Marks the op's results and the arguments that it writes in place, e.g. a list that it appends to.
  void reach(const Op& op) {
    reached_.insert(op.outputs.begin(), op.outputs.end());
    for (size_t i = 0; i < op.inputs.size() && i < op.writes.size(); ++i)
      if (op.writes[i]) reached_.insert(op.inputs[i]);
  }

  void visit_inner(const Op& op, const ProgramOrControlFlowBody& inner) {
    visit(inner);
    if (std::any_of(inner.outputs.begin(), inner.outputs.end(), [this](Slot slot) { return is_reached(slot); }))
      reached_.insert(op.outputs.begin(), op.outputs.end());
  }

  const Program& program_;
  int from_, to_;
  std::unordered_set<Slot> reached_;
  bool reaches_ = false;
};

// Finds the regions that repeat and have gradients. Methods of a module (regions with their parent's path) count as
// that module.
class BlockFinder {
 public:
  explicit BlockFinder(const Program& program)
      : program_(program), operators_(program.regions.size()), arithmetic_(program.regions.size()) {
    const std::unordered_set<const Op*> without_gradients = ops_without_gradients(program);
    visit_ops(program.body, [&](const Op& op) {
      if (op.kind != InterpreterInstructionKind::call || without_gradients.contains(&op)) return;
      for (int region = op.region; region >= 0; region = parent(region)) {
        ++operators_[region];
        arithmetic_[region] += is_arithmetic(op.op_class);
      }
    });
    for (int region = 1; region < count(); ++region) runs_[path(region)] += !is_method(region);
  }

  std::vector<int> find() {
    for (const auto kind : {&BlockFinder::numbered, &BlockFinder::of_a_class, &BlockFinder::leaves}) {
      std::vector<int> blocks = outermost((this->*kind)());
      if (blocks.size() > 1 && cover(blocks) >= kMinCover * arithmetic_[0]) return blocks;
    }
    return {};
  }

  std::vector<int> outermost(const std::vector<int>& regions) const {
    const std::set<int> all(regions.begin(), regions.end());
    std::vector<int> result;
    for (const int region : regions)
      if (!inside_any(region, all)) result.push_back(region);
    return result;
  }

 private:
  using Patterns = std::map<std::string, std::vector<int>>;

  int count() const { return static_cast<int>(program_.regions.size()); }
  int parent(int region) const { return program_.regions[region].parent; }
  const std::string& path(int region) const { return program_.regions[region].path; }
  const std::string& type(int region) const { return program_.regions[region].type; }
  bool is_method(int region) const { return region == 0 || path(region) == path(parent(region)); }
  bool is_leaf(int region) const { return arithmetic_[region] < 2; }
  bool is_unit(int region) const {
    return !is_method(region) && !kContainers.count(type(region)) && arithmetic_[region] == 1 && operators_[region] > 2;
  }

  bool is_inside(int region, int outer) const {
    for (region = parent(region); region > outer;) region = parent(region);
    return region == outer;
  }

  bool inside_any(int region, const std::set<int>& outer) const {
    for (region = parent(region); region >= 0; region = parent(region))
      if (outer.count(region)) return true;
    return false;
  }

  double cover(const std::vector<int>& regions) const {
    double sum = 0;
    for (const int region : regions) sum += arithmetic_[region];
    return sum;
  }

  // Containers only if they hold nothing but leaves, e.g. nn.Sequential(Linear, GELU, Linear).
  bool can_be_block(int region) const {
    if (is_method(region) || is_leaf(region)) return false;
    if (!kContainers.count(type(region))) return true;
    for (int inner = region + 1; inner < count(); ++inner)
      if (is_inside(inner, region) && !is_method(inner) && !is_leaf(inner)) return false;
    return true;
  }

  // Numbered members of lists and modules that run more than once, except stages of smaller ones.
  std::vector<int> numbered() {
    Patterns patterns;
    std::map<std::string, int> of_class;
    for (int region = 1; region < count(); ++region) {
      const std::string last = pattern_of(last_part(path(region)));
      if (!can_be_block(region) || (last.find('#') == std::string::npos && runs_[path(region)] < 2)) continue;
      patterns[pattern_of(path(region))].push_back(region);
      ++of_class[type(region)];
    }
    std::erase_if(patterns, [&](const auto& pattern) {
      return pattern.second.size() < 2 && of_class[type(pattern.second[0])] < 2;
    });
    drop_stages_or_parts(patterns);
    add_units(patterns);
    std::vector<int> blocks;
    for (const auto& [pattern, regions] : patterns) blocks.insert(blocks.end(), regions.begin(), regions.end());
    std::sort(blocks.begin(), blocks.end());
    return blocks;
  }

  // Adds a list's stem and head: single convolutions with their norm and activation.
  void add_units(Patterns& patterns) const {
    for (int region = 1; region < count(); ++region) {
      const auto list = patterns.find(pattern_of(path(region)));
      if (list != patterns.end() && is_unit(region)) list->second.push_back(region);
    }
  }

  // From the outside in: removes a stage, and removes the parts of any other module.
  void drop_stages_or_parts(Patterns& patterns) const {
    std::vector<std::string> order;
    for (const auto& [pattern, regions] : patterns) order.push_back(pattern);
    std::sort(order.begin(), order.end(),
              [&](const auto& a, const auto& b) { return patterns[a][0] < patterns[b][0]; });
    for (const std::string& outer : order) {
      if (!patterns.count(outer)) continue;
      if (is_stage(outer, patterns)) {
        patterns.erase(outer);
        continue;
      }
      const std::set<int> regions(patterns[outer].begin(), patterns[outer].end());
      for (auto& [pattern, parts] : patterns) std::erase_if(parts, [&](int part) { return inside_any(part, regions); });
      std::erase_if(patterns, [](const auto& pattern) { return pattern.second.empty(); });
    }
  }

  // True if chains of smaller regions of one class cover most of the stage.
  bool is_stage(const std::string& outer, const Patterns& patterns) const {
    const std::vector<int>& stages = patterns.at(outer);
    std::vector<int> rows;
    for (const auto& [pattern, regions] : patterns) {
      std::vector<int> parts;
      const std::set<int> all(stages.begin(), stages.end());
      for (const int region : regions)
        if (inside_any(region, all)) parts.push_back(region);
      if (std::any_of(stages.begin(), stages.end(), [&](int stage) { return has_row(stage, parts); }))
        rows.insert(rows.end(), parts.begin(), parts.end());
    }
    return cover(outermost(rows)) >= kMaxStage * cover(outermost(stages));
  }

  // True if two members of one list (blocks.0, blocks.1) form a chain, or at least three named layer1, layer2, ... do.
  // Two of the latter may be parts: attn1 and attn2.
  bool has_row(int stage, const std::vector<int>& parts) const {
    Patterns lists, names;
    for (const int part : parts) {
      if (!is_inside(part, stage)) continue;
      const std::string& name = path(part);
      lists[type(part) + " " + without_numbers(name)].push_back(part);
      const std::string last = last_part(name);
      names[type(part) + " " + name.substr(0, name.size() - last.size()) + pattern_of(last)].push_back(part);
    }
    const auto is_row = [this](size_t least) {
      return [this, least](const auto& named) {
        const std::vector<int>& row = named.second;
        return row.size() >= least && ChainPlanningProblem(program_, row[0], row[1]).reaches();
      };
    };
    return std::any_of(lists.begin(), lists.end(), is_row(2)) || std::any_of(names.begin(), names.end(), is_row(3));
  }

  // The class that covers most, of those that occur at least twice.
  std::vector<int> of_a_class() {
    return best_class([this](int region) { return can_be_block(region) && !kContainers.count(type(region)); });
  }

  // Single convolutions with their norm and the like, if nothing larger repeats.
  std::vector<int> leaves() {
    return best_class([this](int region) { return is_unit(region); });
  }

  template <typename Accept>
  std::vector<int> best_class(const Accept& accept) {
    std::map<std::string, std::vector<int>> by_class;
    for (int region = 1; region < count(); ++region)
      if (accept(region)) by_class[type(region)].push_back(region);
    std::vector<int> best;
    for (const auto& [type, regions] : by_class) {
      const std::vector<int> candidates = outermost(regions);
      if (candidates.size() > 1 && cover(candidates) > cover(best)) best = candidates;
    }
    return best;
  }

  const Program& program_;
  std::vector<int> operators_;   // by region, inner regions included
  std::vector<int> arithmetic_;  // those that are matmuls and the like
  std::map<std::string, int> runs_;
};

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
  return BlockFinder(program).outermost(regions);
}

}  // namespace

std::vector<int> find_blocks(const Program& program, const std::string& blocks) {
  return blocks.empty() ? BlockFinder(program).find() : matching_regions(program, blocks);
}

}  // namespace memtune::program
