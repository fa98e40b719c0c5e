// Lowers a module to a program that is ready to run.
#pragma once

#include <string>

#include "core/model/frontend/loss.h"
#include "core/model/frontend/torchscript/lowering.h"

namespace memtune::tests {

inline program::Program lower(const torch::jit::Module& module, frontend::LossKind loss, const std::string& target,
                              c10::Device device) {
  return frontend::with_loss(frontend::lower_module(module, device), loss, target);
}

}  // namespace memtune::tests
