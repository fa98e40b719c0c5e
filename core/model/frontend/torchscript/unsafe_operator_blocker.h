// While an object lives, LibTorch's compiler does not know the operators that reach outside of the process. Code in a
// model's file that names one does not compile. No code of a class runs before all of it is compiled. So graphs need
// not be searched, and code that loading runs (__setstate__) is blocked too. One object at a time per process.
#pragma once

#include <torch/csrc/jit/runtime/operator.h>

#include <string>
#include <vector>

namespace memtune::frontend {

class UnsafeOperatorBlocker {
 public:
  UnsafeOperatorBlocker();
  ~UnsafeOperatorBlocker();
  UnsafeOperatorBlocker(const UnsafeOperatorBlocker&) = delete;
  UnsafeOperatorBlocker& operator=(const UnsafeOperatorBlocker&) = delete;

  // The refused operator that made LibTorch fail with `message`; "" for another reason.
  static std::string named_in(const std::string& message);

 private:
  std::vector<torch::jit::Operator> operators_;
};

}  // namespace memtune::frontend
