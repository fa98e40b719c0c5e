// The values of one graph by the names that its nodes have for them, and arguments of nodes as values of the program.
#pragma once

#include <c10/core/Device.h>

#include <string>
#include <unordered_map>
#include <utility>

#include "core/config/pt2_graph.h"
#include "core/frontend/emitter.h"

namespace memtune::frontend {

class GraphValues {
 public:
  GraphValues(Emitter& emit, c10::Device device) : emit_(emit), device_(device) {}

  using Names = std::unordered_map<std::string, Value>;
  Names exchange(Names names) { return std::exchange(known_, std::move(names)); }  // for those of a graph inside

  void bind(const std::string& name, Value value) { known_.insert_or_assign(name, value); }
  Value find(const std::string& name) const;  // UsageError for a value that no node has made

  // As the operator's schema wants it: numbers become tensors, integers reals, one number a list of such, devices the
  // one that the program is for. UsageError for what it cannot take.
  Value argument(const config::Pt2Argument& given, const c10::Argument& wanted);

  // As it is: what a graph answers with, an operand, an argument of a function of numbers.
  Value plain(const config::Pt2Argument& given);
  Values plain_list(const config::Pt2Argument& given);  // one by one

 private:
  Value element(const config::Pt2Argument& given, const config::Pt2Element& element);
  c10::IValue constant(const config::Pt2Argument& given, const config::Pt2Element& element) const;
  Value list(const config::Pt2Argument& given, const c10::TypePtr& element_type, int64_t count);
  Value tensor(const config::Pt2Argument& given);
  Value real(const config::Pt2Argument& given, const config::Pt2Element& element);

  Emitter& emit_;
  c10::Device device_;
  Names known_;
};

}  // namespace memtune::frontend
