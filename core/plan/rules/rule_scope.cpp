#include "core/plan/rules/rule_scope.h"

#include <algorithm>
#include <functional>
#include <map>
#include <set>

#include "core/base/error.h"
#include "core/base/text.h"
#include "core/plan/rules/op_class.h"

namespace memtune::plan {
namespace {

const std::map<std::string, std::function<bool(const ProgramOpFacts&)>>& classes() {
  static const std::map<std::string, std::function<bool(const ProgramOpFacts&)>> classes = {
      {"attention", is_attention},
      {"cheap", [](const ProgramOpFacts& op) { return is_cheap(op); }},
      {"matmul", [](const ProgramOpFacts& op) { return is_matmul(op); }},
      {"norm", is_norm}};
  return classes;
}

bool is_op(const std::string& name, const ProgramOpFacts& op) {
  const auto of_class = classes().find(name);
  return of_class == classes().end() ? strip_op_namespace(op.name) == strip_op_namespace(name) : of_class->second(op);
}

// Throws for an unknown name, with the nearest known one and as many known names as a line has room for.
[[noreturn]] void refuse(const std::string& field, const std::string& what, const std::string& text,
                         const std::set<std::string>& known) {
  constexpr size_t kMax = 12;
  const std::vector<std::string> names(known.begin(), known.end());
  const std::string near = nearest(text, names);
  const auto shown = std::span(names).first(std::min(kMax, names.size()));
  throw UsageError(field + ": " + what + " '" + text + "'" + (near.empty() ? "." : "; did you mean '" + near + "'?") +
                   " Known: " + (names.empty() ? "none" : join(shown, ", ")) + (names.size() > kMax ? ", ..." : ""));
}

// "layers.*.mlp.w1" and all modules that contain it.
void add_regions(const std::string& region, std::set<std::string>& regions) {
  std::string path = without_numbers(region);
  while (!path.empty()) {
    regions.insert(path);
    path.resize(path.find('.') == std::string::npos ? 0 : path.rfind('.'));
  }
}

std::set<std::string> names_of(const std::vector<int>& ops, const ProgramFacts& facts) {
  std::set<std::string> names;
  for (const int op : ops) names.insert(strip_op_namespace(facts.ops[op].name));
  for (const auto& [name, is_one] : classes())
    if (std::any_of(ops.begin(), ops.end(), [&, &is_one = is_one](int op) { return is_one(facts.ops[op]); }))
      names.insert(name);
  return names;
}

class Scope {
 public:
  Scope(const PlacementRule& rule, const ProgramFacts& facts, const OpMemoryAccessGraph& graph)
      : rule_(rule), facts_(facts), graph_(graph) {}

  std::vector<RuleMatchedOpOutput> select() const {
    try {
      rule_.blocks.check(facts_.blocks.size());
    } catch (const UsageError& error) {
      throw UsageError(std::string("blocks: ") + error.what());
    }
    return rule_.inputs_of.empty() ? select_ops() : select_inputs();
  }

 private:
  std::vector<RuleMatchedOpOutput> select_ops() const {
    std::vector<RuleMatchedOpOutput> selected;
    for (const int op : of_name(of_region(in_blocks(all(), "region"), "region", rule_.region)))
      selected.push_back({op, RuleMatchedOpOutput::kAll});
    return selected;
  }

  // Values that ops of the region read and that other ops created.
  std::vector<RuleMatchedOpOutput> select_inputs() const {
    std::vector<int> taken, makers;
    for (const int taker : in_blocks(of_region(all(), "inputs_of", rule_.inputs_of), "inputs_of"))
      for (const int memory : graph_.read_by(taker)) {
        if (is_inside(graph_.memories()[memory].op, taker)) continue;
        taken.push_back(memory);
        makers.push_back(graph_.memories()[memory].op);
      }
    if (taken.empty()) throw UsageError("inputs_of: '" + rule_.inputs_of + "' reads no output of an op");
    makers = of_name(of_region(makers, "region", rule_.region));
    std::vector<RuleMatchedOpOutput> selected;
    for (const int index : taken) {
      const OpOutputAllocationNode& memory = graph_.memories()[index];
      if (std::find(makers.begin(), makers.end(), memory.op) == makers.end()) continue;
      selected.push_back({memory.op, memory.output});
      for (const int writer : memory.writers) selected.push_back({writer, 0});
    }
    return selected;
  }

  bool is_inside(int maker, int taker) const {
    return matched_region(rule_.inputs_of, facts_.ops[maker].region) ==
           matched_region(rule_.inputs_of, facts_.ops[taker].region);
  }

  std::vector<int> all() const {
    std::vector<int> ops;
    for (size_t i = 0; i < facts_.ops.size(); ++i)
      if (makes_values(facts_.ops[i])) ops.push_back(static_cast<int>(i));
    return ops;
  }

  std::vector<int> in_blocks(std::vector<int> ops, const char* field) const {
    if (rule_.blocks.all()) return ops;
    std::erase_if(
        ops, [&](int op) { return facts_.ops[op].block == kOutside || !rule_.blocks.contains(facts_.ops[op].block); });
    if (ops.empty()) throw UsageError(std::string(field) + ": no match is in the rule's blocks");
    return ops;
  }

  std::vector<int> of_region(std::vector<int> ops, const char* field, const std::string& glob) const {
    if (glob.empty()) return ops;
    std::set<std::string> regions;
    for (const int op : ops) add_regions(facts_.ops[op].region, regions);
    std::erase_if(ops, [&](int op) { return matched_region(glob, facts_.ops[op].region).empty(); });
    if (ops.empty()) refuse(field, "no op is in", glob, regions);
    return ops;
  }

  std::vector<int> of_name(std::vector<int> ops) const {
    if (rule_.op.empty()) return ops;
    const std::set<std::string> names = names_of(ops, facts_);
    std::erase_if(ops, [&](int op) { return !is_op(rule_.op, facts_.ops[op]); });
    if (ops.empty()) refuse("op", "what the rule selects has no op", rule_.op, names);
    return ops;
  }

  const PlacementRule& rule_;
  const ProgramFacts& facts_;
  const OpMemoryAccessGraph& graph_;
};

}  // namespace

std::string matched_region(const std::string& glob, const std::string& region) {
  const std::vector<std::string> parts = split(region, '.');
  const size_t depth = split(glob, '.').size();
  if (parts.size() < depth) return "";
  const std::string path = join(std::span(parts).first(depth), ".");
  return glob_match(glob, path) ? path : "";
}

std::vector<RuleMatchedOpOutput> select(const PlacementRule& rule, const ProgramFacts& facts,
                                        const OpMemoryAccessGraph& graph) {
  return Scope(rule, facts, graph).select();
}

}  // namespace memtune::plan
