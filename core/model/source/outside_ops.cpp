#include "core/model/source/outside_ops.h"

#include <algorithm>
#include <array>

namespace memtune::model {
namespace {

// Prefixes of names: an op, all overloads of an op, or a namespace.
constexpr std::array<std::string_view, 13> kOutside = {
    "aten::from_file",  "aten::save",   "aten::load", "prim::rpc_",   "c10d::",
    "_c10d_functional", "_dtensor::",   "symm_mem::", "debugprims::", "static_runtime::",
    "inductor::",       "aten::_test_", "_test::",
};

}  // namespace

bool reaches_outside(std::string_view op) {
  return std::ranges::any_of(kOutside, [&](std::string_view start) { return op.starts_with(start); });
}

}  // namespace memtune::model
