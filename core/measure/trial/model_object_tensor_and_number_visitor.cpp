#include "core/measure/trial/model_object_tensor_and_number_visitor.h"

#include <ATen/ATen.h>
#include <ATen/core/class_type.h>

namespace memtune::trial {

void ModelObjectTensorAndNumberVisitor::walk(const std::string& path, const c10::IValue& value) {
  if (value.isTensor() && value.toTensor().defined()) take_tensor_(path, value.toTensor());
  if (value.isObject()) walk_object(path, value.toObject());
  if (value.isList()) {
    const std::vector<c10::IValue> elements = value.toList().vec();
    for (size_t i = 0; i < elements.size(); ++i) walk(path + "." + std::to_string(i), elements[i]);
  }
  if (value.isGenericDict())
    for (const auto& entry : value.toGenericDict())
      walk(path + "." +
               (entry.key().isString() ? entry.key().toStringRef() : std::to_string(entry.key().hash().toInt())),
           entry.value());
}

void ModelObjectTensorAndNumberVisitor::walk_object(const std::string& path,
                                                    const c10::intrusive_ptr<c10::ivalue::Object>& object) {
  if (!seen_.insert(object.get()).second) return;
  for (size_t i = 0; i < object->slots().size(); ++i) {
    const std::string name = (path.empty() ? "" : path + ".") + object->type()->getAttributeName(i);
    const c10::IValue value = object->getSlot(i);
    if (value.isInt() || value.isDouble() || value.isBool()) take_number_(name, object, i);
    walk(name, value);
  }
}

at::Tensor tensor_of(const c10::IValue& number) {
  if (number.isInt()) return at::scalar_tensor(number.toInt(), at::kLong);
  if (number.isBool()) return at::scalar_tensor(number.toBool(), at::kBool);
  return at::scalar_tensor(number.toDouble(), at::kDouble);
}

c10::IValue number_of(const at::Tensor& tensor) {
  if (tensor.scalar_type() == at::kLong) return tensor.item<int64_t>();
  if (tensor.scalar_type() == at::kBool) return tensor.item<bool>();
  return tensor.item<double>();
}

bool same_number(const c10::IValue& a, const c10::IValue& b) {
  return a.tagKind() == b.tagKind() && at::equal(tensor_of(a), tensor_of(b));
}

}  // namespace memtune::trial
