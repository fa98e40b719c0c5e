// What a model's object holds beside parameters and buffers: tensors and numbers, by their paths.
#pragma once

#include <ATen/core/ivalue.h>

#include <functional>
#include <string>
#include <unordered_set>

namespace memtune::trial {

// All tensors of an object and what it holds.
class ModelAttributes {
 public:
  using TakeTensor = std::function<void(const std::string&, const at::Tensor&)>;
  using TakeNumber = std::function<void(const std::string&, const c10::intrusive_ptr<c10::ivalue::Object>&, size_t)>;

  ModelAttributes(TakeTensor take_tensor, TakeNumber take_number)
      : take_tensor_(std::move(take_tensor)), take_number_(std::move(take_number)) {}

  void walk(const std::string& path, const c10::IValue& value);

 private:
  void walk_object(const std::string& path, const c10::intrusive_ptr<c10::ivalue::Object>& object);

  TakeTensor take_tensor_;
  TakeNumber take_number_;
  std::unordered_set<const void*> seen_;
};

// A number (int, bool or double) as a tensor of no dimension, and back.
at::Tensor tensor_of(const c10::IValue& number);
c10::IValue number_of(const at::Tensor& tensor);
bool same_number(const c10::IValue& a, const c10::IValue& b);

}  // namespace memtune::trial
