// The regions that nodes of an exported program belong to: one for each run of a module.
#pragma once

#include <string>
#include <unordered_map>

#include "core/frontend/emitter.h"

namespace memtune::frontend {

class ModuleRegions {
 public:
  explicit ModuleRegions(program::Program& program) : program_(program) {}

  // Ops belong to the innermost module of the stack ("key,path,type;..."), and stay where they were without one.
  void enter(Emitter& emit, const std::string& stack);

 private:
  int find(Emitter& emit, const std::string& stack);

  program::Program& program_;
  std::unordered_map<std::string, int> known_;  // by stack, and by the keys on the way to a module
};

}  // namespace memtune::frontend
