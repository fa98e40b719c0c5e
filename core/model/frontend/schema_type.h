// Types in the schemas of operators and of forward().
#pragma once

#include <ATen/core/jit_type.h>

namespace memtune::frontend {

// T for Optional[T]; other types unchanged.
inline c10::TypePtr without_none(const c10::TypePtr& type) {
  const auto optional = type->cast<c10::OptionalType>();
  return optional ? optional->getElementType() : type;
}

}  // namespace memtune::frontend
