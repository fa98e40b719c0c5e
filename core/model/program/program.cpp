#include "core/model/program/program.h"

namespace memtune::program {

std::vector<std::string> input_names(const Program& program) {
  std::vector<std::string> names;
  for (const ModelOrLossInputDeclaration& input : program.inputs) names.push_back(input.name);
  return names;
}

}  // namespace memtune::program
