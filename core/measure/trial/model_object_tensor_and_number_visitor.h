// Finds what a model's object holds apart from parameters and buffers: tensors and numbers, by their paths.
#pragma once

#include <ATen/core/ivalue.h>

#include <functional>
#include <string>
#include <unordered_set>

namespace memtune::trial {

// Visits all tensors and numbers of an object, also inside of nested objects, lists and dicts.
class ModelObjectTensorAndNumberVisitor {
 public:
  using TakeTensor = std::function<void(const std::string&, const at::Tensor&)>;
  using TakeNumber = std::function<void(const std::string&, const c10::intrusive_ptr<c10::ivalue::Object>&, size_t)>;

  ModelObjectTensorAndNumberVisitor(TakeTensor take_tensor, TakeNumber take_number)
      : take_tensor_(std::move(take_tensor)), take_number_(std::move(take_number)) {}

  void walk(const std::string& path, const c10::IValue& value);

 private:
  void walk_object(const std::string& path, const c10::intrusive_ptr<c10::ivalue::Object>& object);

  TakeTensor take_tensor_;
  TakeNumber take_number_;
  std::unordered_set<const void*> seen_;
};

// Converts a number (int, bool or double) to a tensor of no dimension, and back.
at::Tensor tensor_of(const c10::IValue& number);
c10::IValue number_of(const at::Tensor& tensor);
bool same_number(const c10::IValue& a, const c10::IValue& b);

}  // namespace memtune::trial
