// Assigns nodes of an exported program to regions: one region per run of a module.
#pragma once

#include <string>
#include <unordered_map>

#include "core/model/frontend/program_emitter.h"

namespace memtune::frontend {

class ModuleStackRegionMapper {
 public:
  explicit ModuleStackRegionMapper(program::Program& program) : program_(program) {}

  // Sets the region of the next ops to the innermost module of the stack ("key,path,type;..."). Without a module it
  // stays.
  void enter(ProgramEmitter& emit, const std::string& stack);

 private:
  int find(ProgramEmitter& emit, const std::string& stack);

  program::Program& program_;
  std::unordered_map<std::string, int> known_;  // by stack, and by the keys of outer modules
};

}  // namespace memtune::frontend
