// The values of one graph by their names in its nodes, and conversion of node arguments to values of the program.
#pragma once

#include <c10/core/Device.h>

#include <string>
#include <unordered_map>
#include <utility>

#include "core/model/frontend/program_emitter.h"
#include "core/model/pt2/pt2_graph.h"

namespace memtune::frontend {

class Pt2ArgumentConverter {
 public:
  Pt2ArgumentConverter(ProgramEmitter& emit, c10::Device device) : emit_(emit), device_(device) {}

  using Names = std::unordered_map<std::string, Value>;
  // returns the old names; for entering and leaving an inner graph
  Names exchange(Names names) { return std::exchange(known_, std::move(names)); }

  void bind(const std::string& name, Value value) { known_.insert_or_assign(name, value); }
  Value find(const std::string& name) const;  // throws UsageError for a value that no node has made

  // Converts an argument to the type in the operator's schema: numbers to tensors, integers to reals, a number to a
  // list. Replaces devices by the program's. Throws UsageError if it cannot.
  Value argument(const model::Pt2Argument& given, const c10::Argument& wanted);

  // Without conversion: an output of a graph, an operand, an argument of a host function.
  Value plain(const model::Pt2Argument& given);
  Values plain_list(const model::Pt2Argument& given);  // each element

 private:
  Value element(const model::Pt2Argument& given, const model::Pt2ValueOrConstant& element);
  c10::IValue constant(const model::Pt2Argument& given, const model::Pt2ValueOrConstant& element) const;
  Value list(const model::Pt2Argument& given, const c10::TypePtr& element_type, int64_t count);
  Value tensor(const model::Pt2Argument& given);
  Value real(const model::Pt2Argument& given, const model::Pt2ValueOrConstant& element);

  ProgramEmitter& emit_;
  c10::Device device_;
  Names known_;
};

}  // namespace memtune::frontend
