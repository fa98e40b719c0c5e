#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <unordered_map>

#include "core/base/error.h"
#include "core/base/text.h"
#include "core/program/program.h"

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

// For each call: how many operators run inside it, inner calls included.
std::vector<int> operators_in_calls(const Program& program) {
  std::vector<int> count(program.calls.size());
  visit_ops(program.body, [&](const Op& op) {
    if (op.kind != OpKind::call) return;
    for (int call = op.call; call >= 0; call = program.calls[call].parent) ++count[call];
  });
  return count;
}

bool inside(const Program& program, int call, const std::set<int>& outer) {
  for (call = program.calls[call].parent; call >= 0; call = program.calls[call].parent)
    if (outer.count(call)) return true;
  return false;
}

std::vector<int> outermost(const Program& program, const std::vector<int>& calls) {
  std::set<int> all(calls.begin(), calls.end());
  std::vector<int> result;
  for (int call : calls)
    if (!inside(program, call, all)) result.push_back(call);
  return result;
}

std::vector<int> matching_calls(const Program& program, const std::string& glob) {
  std::vector<int> calls;
  std::vector<std::string> paths;
  for (size_t i = 0; i < program.calls.size(); ++i) {
    if (glob_match(glob, program.calls[i].path)) calls.push_back(static_cast<int>(i));
    if (!program.calls[i].path.empty()) paths.push_back(program.calls[i].path);
  }
  if (calls.empty())
    throw UsageError(
        "no module matches --blocks '" + glob + "'; the model has " +
        (paths.empty() ? "no submodules" : join(std::span(paths).first(std::min<size_t>(paths.size(), 8)), ", ")) +
        (paths.size() > 8 ? ", ..." : ""));
  return outermost(program, calls);
}

}  // namespace

std::string source_of(const torch::jit::Node* node) {
  if (!node) return "";
  torch::jit::SourceRange range = node->sourceRange();
  if (auto original = range.findSourceRangeThatGenerated()) range = *original;
  auto place = range.file_line_col();
  if (!place) return "";
  auto [file, line, column] = *place;
  size_t slash = file.find_last_of('/');
  return (slash == std::string::npos ? file : file.substr(slash + 1)) + ":" + std::to_string(line);
}

// Of all classes that occur at least twice: the one whose calls cover most operators, the smaller calls on a tie (a
// residual block rather than the stage that holds it).
std::vector<int> find_blocks(const Program& program, const std::string& blocks) {
  if (!blocks.empty()) return matching_calls(program, blocks);
  auto operators = operators_in_calls(program);
  std::map<std::string, std::vector<int>> by_class;
  for (size_t i = 1; i < program.calls.size(); ++i)
    if (!kContainers.count(program.calls[i].type) && operators[i] > 2)
      by_class[program.calls[i].type].push_back(static_cast<int>(i));
  std::vector<int> best;
  int best_cover = 0;
  for (auto& [type, calls] : by_class) {
    auto candidates = outermost(program, calls);
    if (candidates.size() < 2) continue;
    int cover = 0;
    for (int call : candidates) cover += operators[call];
    if (cover > best_cover || (cover == best_cover && candidates.size() > best.size())) {
      best = candidates;
      best_cover = cover;
    }
  }
  return best;
}

namespace {

class FactsBuilder {
 public:
  FactsBuilder(const Program& program, const std::vector<int>& blocks) : program_(program) {
    for (size_t i = 0; i < blocks.size(); ++i) block_of_call_[blocks[i]] = static_cast<int>(i);
    for (int call : blocks) facts_.blocks.push_back({program.calls[call].path});
  }

  config::ProgramFacts build() {
    facts_.ops.resize(program_.ops);
    facts_.owner.assign(program_.slots, -1);
    parent_.resize(program_.ops);
    std::iota(parent_.begin(), parent_.end(), 0);
    for (const Op& op : program_.body.ops) add(op);
    for (int& owner : facts_.owner) owner = find(owner);
    bool seen = false;
    for (auto& op : facts_.ops) {
      if (op.block >= 0) seen = true;
      last_block_op_ = op.block >= 0 ? static_cast<int>(&op - facts_.ops.data()) : last_block_op_;
    }
    for (size_t i = 0; seen && i < facts_.ops.size(); ++i)
      facts_.ops[i].after_blocks = static_cast<int>(i) > last_block_op_;
    add_parameters();
    facts_.notes = program_.notes;
    note_unknown();
    return std::move(facts_);
  }

 private:
  void add(const Op& op) {
    config::OpFacts& fact = facts_.ops[op.id];
    fact.name = op.name;
    fact.region = program_.path(op);
    for (int call = op.call; call >= 0 && fact.block < 0; call = program_.calls[call].parent) {
      auto found = block_of_call_.find(call);
      if (found != block_of_call_.end()) fact.block = found->second;
    }
    for (Slot slot : op.inputs)
      if (!program_.is_constant[slot]) fact.inputs.push_back(slot);
    fact.outputs = op.outputs;
    fact.random = op.random;
    fact.op_class = op.op_class;
    fact.in_place = std::find(op.writes.begin(), op.writes.end(), true) != op.writes.end();
    if (op.node) fact.source = source_of(op.node);
    own(op, fact);
  }

  // Values that may share memory get one number: through views, in-place ops, containers, and whatever a branch or a
  // loop hands out.
  void own(const Op& op, config::OpFacts& fact) {
    bool packs = op.kind != OpKind::call && op.kind != OpKind::get_attribute;
    bool aliases = packs || returns_alias(op);
    fact.view = aliases && !fact.in_place;
    for (Slot output : op.outputs) {
      if (op.kind == OpKind::get_attribute) continue;  // a parameter or buffer: nobody's value
      facts_.owner[output] = op.id;
      for (size_t i = 0; i < op.inputs.size(); ++i)
        if (!program_.is_constant[op.inputs[i]] && (packs || (aliases && hands_on(op, i)))) unite(op.inputs[i], output);
    }
    for (size_t i = 0; i < op.bodies.size(); ++i) own_body(op, op.bodies[i]);
  }

  static bool returns_alias(const Op& op) {
    if (!op.node || !op.node->maybeOperator()) return false;
    const auto& returns = op.node->maybeOperator()->schema().returns();
    return std::any_of(returns.begin(), returns.end(), [](const auto& result) { return result.alias_info(); });
  }

  // Whether the answer may be (a view of) argument `i`: the written one of an in-place op, the viewed one of a view.
  static bool hands_on(const Op& op, size_t i) {
    const auto& arguments = op.node->maybeOperator()->schema().arguments();
    if (i >= arguments.size() || !arguments[i].alias_info()) return false;
    bool writes = std::find(op.writes.begin(), op.writes.end(), true) != op.writes.end();
    return !writes || op.writes[i];
  }

  void own_body(const Op& op, const Body& body) {
    bool is_loop = op.kind == OpKind::loop;
    for (size_t i = 1; is_loop && i < body.inputs.size(); ++i) pass(op.inputs[i + 1], body.inputs[i]);
    for (const Op& inner : body.ops) add(inner);
    for (size_t i = 0; i < op.outputs.size(); ++i) unite(body.outputs[i + (is_loop ? 1 : 0)], op.outputs[i]);
  }

  void pass(Slot from, Slot to) { facts_.owner[to] = facts_.owner[from]; }

  void unite(Slot a, Slot b) {
    int first = find(facts_.owner[a]), second = find(facts_.owner[b]);
    if (first >= 0 && second >= 0) parent_[std::max(first, second)] = std::min(first, second);
    if (second < 0) facts_.owner[b] = facts_.owner[a];
  }

  int find(int op) const {
    while (op >= 0 && parent_[op] != op) op = parent_[op];
    return op;
  }

  void note_unknown() {
    std::set<std::string> names;
    for (const auto& op : facts_.ops)
      if (op.op_class == config::OpClass::unknown) names.insert(op.name);
    if (names.empty()) return;
    facts_.notes.push_back("not known to memtune, so taken for dear: " +
                           join(std::vector<std::string>(names.begin(), names.end()), ", "));
  }

  void add_parameters() {
    std::set<const void*> seen;
    for (const auto& parameter : program_.module.parameters())
      if (seen.insert(parameter.unsafeGetTensorImpl()).second) {
        facts_.parameters += parameter.numel();
        facts_.parameter_bytes += static_cast<int64_t>(parameter.nbytes());
      }
  }

  const Program& program_;
  config::ProgramFacts facts_;
  std::unordered_map<int, int> block_of_call_;
  std::vector<int> parent_;  // of each op, towards the first that may share its memory
  int last_block_op_ = -1;
};

}  // namespace

config::ProgramFacts facts(const Program& program, const std::vector<int>& blocks) {
  return FactsBuilder(program, blocks).build();
}

}  // namespace memtune::program
