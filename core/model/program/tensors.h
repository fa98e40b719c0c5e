// Visits the tensors among an op's arguments or results: in order, lists flattened, undefined tensors included.
#pragma once

#include <ATen/core/ivalue.h>

#include <vector>

#include "core/model/program/program.h"

namespace memtune::program {

template <typename Visit>
void for_each_tensor(const c10::IValue& value, Visit&& visit) {
  if (value.isTensor()) {
    visit(value.toTensor());
  } else if (value.isTensorList()) {
    for (const c10::IValue& element : value.toListRef()) visit(element.toTensor());
  }
}

template <typename Visit>
void for_each_tensor(const Stack& values, Visit&& visit) {
  for (const c10::IValue& value : values) for_each_tensor(value, visit);
}

inline std::vector<at::Tensor> tensors_in(const Stack& values) {
  std::vector<at::Tensor> tensors;
  for_each_tensor(values, [&](const at::Tensor& tensor) { tensors.push_back(tensor); });
  return tensors;
}

}  // namespace memtune::program
