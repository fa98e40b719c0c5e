// Types that schemas of operators and of forward() have.
#pragma once

#include <ATen/core/jit_type.h>

namespace memtune::frontend {

// What Optional[type] has when it is not None; other types as they are.
inline c10::TypePtr without_none(const c10::TypePtr& type) {
  const auto optional = type->cast<c10::OptionalType>();
  return optional ? optional->getElementType() : type;
}

}  // namespace memtune::frontend
