// While it lives, LibTorch's compiler does not know the operators that reach outside: code that names one, anywhere in
// a model's file, does not compile, and none of a class's code runs before all of it is compiled. So nothing has to be
// found in graphs, and what loading runs (__setstate__) is held back as well. One at a time, for the whole process.
#pragma once

#include <torch/csrc/jit/runtime/operator.h>

#include <string>
#include <vector>

namespace memtune::frontend {

class RefusedOps {
 public:
  RefusedOps();
  ~RefusedOps();
  RefusedOps(const RefusedOps&) = delete;
  RefusedOps& operator=(const RefusedOps&) = delete;

  // The one that made LibTorch fail with `message`; "": another reason.
  static std::string named_in(const std::string& message);

 private:
  std::vector<torch::jit::Operator> operators_;
};

}  // namespace memtune::frontend
