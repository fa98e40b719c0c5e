// Emits the nodes of an exported program's graphs.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <string>

#include "core/model/frontend/front_end.h"
#include "core/model/frontend/pt2/module_stack_region_mapper.h"
#include "core/model/frontend/pt2/pt2_argument_converter.h"
#include "core/model/pt2/pt2_graph.h"

namespace memtune::frontend {

class GraphLowering {
 public:
  GraphLowering(program::Program& program, const ModelSourceAndLoweringOptions& source);

  ProgramEmitter& emit() { return emit_; }
  Pt2ArgumentConverter& values() { return values_; }

  // Writes for the source's device. Skips assertions, and full slices (x[:]) as Python's indexing does. Throws
  // UsageError without the model's path, but with the author's source line, for a node that cannot be run.
  void write(const model::Pt2Graph& graph);

 private:
  using Node = model::Pt2Node;

  void write(const Node& node);
  void write_call(const Node& node, const std::string& name);
  c10::OperatorHandle find_operator(const std::string& name) const;
  Values arguments(const Node& node, const c10::FunctionSchema& schema);

  void write_region(const Node& node, const std::string& name);
  void write_grad_mode(const Node& node);
  void write_autocast(const Node& node);
  void write_entered(const Node& node, size_t graph);
  void write_branch(const Node& node);
  Value condition(const model::Pt2Argument& given);
  Values operands(const Node& node, size_t begin);
  Values write_inside(const model::Pt2Graph& graph, const Values& operands);

  void bind(const model::Pt2Argument& output, Value value);
  void bind(const Node& node, const Values& results);
  void bind_each(const Node& node, const Values& results);

  ProgramEmitter emit_;
  ModuleStackRegionMapper regions_;
  const ModelSourceAndLoweringOptions& source_;
  Pt2ArgumentConverter values_;
};

}  // namespace memtune::frontend
