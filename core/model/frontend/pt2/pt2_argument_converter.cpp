#include "core/model/frontend/pt2/pt2_argument_converter.h"

#include <ATen/ScalarOps.h>
#include <ATen/core/jit_type.h>

#include <algorithm>

#include "core/base/error.h"
#include "core/base/utf8.h"
#include "core/model/frontend/pt2/schema_numbers.h"
#include "core/model/frontend/schema_type.h"

namespace memtune::frontend {
namespace {

using c10::IValue;
using c10::TypeKind;
using model::Pt2Argument;
using model::Pt2ArgumentKind;
using model::Pt2ValueOrConstant;
using program::Stack;

[[noreturn]] void refuse(const c10::Argument& wanted) {
  throw UsageError("its argument '" + wanted.name() + "' is no " + wanted.type()->annotation_str());
}

bool is_number(Pt2ArgumentKind kind) {
  return kind == Pt2ArgumentKind::integer || kind == Pt2ArgumentKind::real || kind == Pt2ArgumentKind::boolean ||
         kind == Pt2ArgumentKind::complex;
}

// A wrapped number, like Python's numbers: it does not promote tensors, and kernels accept it on any device.
IValue number_as_tensor(const at::Scalar& number) {
  at::Tensor tensor = c10::scalar_to_tensor(number);
  tensor.unsafeGetTensorImpl()->set_wrapped_number(true);
  return tensor;
}

bool takes(TypeKind type, Pt2ArgumentKind kind) {
  switch (type) {
    case TypeKind::IntType:
      return kind == Pt2ArgumentKind::integer || kind == Pt2ArgumentKind::boolean || kind == Pt2ArgumentKind::dtype ||
             kind == Pt2ArgumentKind::layout || kind == Pt2ArgumentKind::memory_format;
    case TypeKind::NumberType: return is_number(kind);
    case TypeKind::BoolType: return kind == Pt2ArgumentKind::boolean;
    case TypeKind::StringType: return kind == Pt2ArgumentKind::text;
    case TypeKind::DeviceObjType: return kind == Pt2ArgumentKind::device;
    default: return false;
  }
}

}  // namespace

Value Pt2ArgumentConverter::find(const std::string& name) const {
  const auto found = known_.find(name);
  if (found == known_.end()) throw UsageError("the value '" + printable(name) + "' is used before it is computed");
  return found->second;
}

IValue Pt2ArgumentConverter::constant(const Pt2Argument& given, const Pt2ValueOrConstant& element) const {
  const auto number = [&] { return std::get<int64_t>(element.constant); };
  switch (given.kind) {
    case Pt2ArgumentKind::integer: return number();
    case Pt2ArgumentKind::real: return std::get<double>(element.constant);
    case Pt2ArgumentKind::boolean: return std::get<bool>(element.constant);
    case Pt2ArgumentKind::text: return std::get<std::string>(element.constant);
    case Pt2ArgumentKind::dtype: return scalar_type_of(number());
    case Pt2ArgumentKind::layout: return layout_of(number());
    case Pt2ArgumentKind::memory_format: return memory_format_of(number());
    case Pt2ArgumentKind::device:
      return std::get<std::string>(element.constant) == "meta" ? c10::Device(c10::kMeta) : device_;
    case Pt2ArgumentKind::complex:
      return c10::complex<double>(std::get<double>(given.elements.at(0).constant),
                                  std::get<double>(given.elements.at(1).constant));
    default: return {};
  }
}

Value Pt2ArgumentConverter::element(const Pt2Argument& given, const Pt2ValueOrConstant& element) {
  if (!element.value.empty()) return find(element.value);
  return emit_.constant(constant(given, element));
}

Value Pt2ArgumentConverter::plain(const Pt2Argument& given) {
  const auto refuse = [](const std::string& what) { throw UsageError("memtune cannot pass on " + what); };
  if (given.kind == Pt2ArgumentKind::other) refuse(printable(std::get<std::string>(given.elements.at(0).constant)));
  if (given.kind == Pt2ArgumentKind::graph || given.is_list) refuse("a list or a graph there");
  return element(given, given.elements.at(0));
}

Values Pt2ArgumentConverter::plain_list(const Pt2Argument& given) {
  if (!given.is_list) return {plain(given)};
  Values values;
  for (const Pt2ValueOrConstant& one : given.elements) values.push_back(element(given, one));
  return values;
}

Value Pt2ArgumentConverter::tensor(const Pt2Argument& given) {
  const Pt2ValueOrConstant& one = given.elements.at(0);
  if (given.kind == Pt2ArgumentKind::tensor) return element(given, one);
  if (one.value.empty()) return emit_.constant(number_as_tensor(constant(given, one).toScalar()));
  const auto run = [](Stack& stack) { stack = {number_as_tensor(stack.at(0).toScalar())}; };
  return emit_.call({"memtune::number", nullptr, run}, {find(one.value)}, 1)[0];
}

Value Pt2ArgumentConverter::real(const Pt2Argument& given, const Pt2ValueOrConstant& one) {
  if (one.value.empty()) return emit_.constant(constant(given, one).toScalar().toDouble());
  if (given.kind == Pt2ArgumentKind::real) return find(one.value);
  const auto run = [](Stack& stack) { stack = {IValue(stack.at(0).toScalar().toDouble())}; };
  return emit_.call({"torch.sym_float", nullptr, run}, {find(one.value)}, 1)[0];
}

// `count`: length of the list that a single number becomes.
Value Pt2ArgumentConverter::list(const Pt2Argument& given, const c10::TypePtr& type, int64_t count) {
  std::vector<Pt2ValueOrConstant> elements = given.elements;
  if (!given.is_list) elements.assign(static_cast<size_t>(count), given.elements.at(0));
  const bool reals = type->kind() == TypeKind::FloatType;
  if (std::ranges::any_of(elements, [](const Pt2ValueOrConstant& one) { return !one.value.empty(); })) {
    Values values;
    for (const Pt2ValueOrConstant& one : elements) values.push_back(reals ? real(given, one) : element(given, one));
    return emit_.list(c10::ListType::create(type), values);
  }
  c10::impl::GenericList constants(type);
  for (const Pt2ValueOrConstant& one : elements) {
    const IValue value = constant(given, one);
    constants.push_back(reals ? IValue(value.toScalar().toDouble()) : value);
  }
  return emit_.constant(constants);
}

Value Pt2ArgumentConverter::argument(const Pt2Argument& given, const c10::Argument& wanted) {
  if (given.kind == Pt2ArgumentKind::none) return emit_.constant(IValue());
  const c10::TypePtr type = without_none(wanted.type());
  if (const auto list_type = type->cast<c10::ListType>()) {
    const c10::TypePtr element_type = list_type->getElementType();
    const TypeKind kind = without_none(element_type)->kind();
    const bool fits = kind == TypeKind::TensorType ? given.kind == Pt2ArgumentKind::tensor
                      : kind == TypeKind::FloatType
                          ? given.kind == Pt2ArgumentKind::real || given.kind == Pt2ArgumentKind::integer
                          : takes(kind, given.kind);
    if (!fits || (!given.is_list && kind == TypeKind::TensorType)) refuse(wanted);
    return list(given, element_type, wanted.N().value_or(1));
  }
  if (given.is_list) refuse(wanted);
  if (type->kind() == TypeKind::TensorType) {
    if (given.kind != Pt2ArgumentKind::tensor && !is_number(given.kind)) refuse(wanted);
    return tensor(given);
  }
  if (type->kind() == TypeKind::FloatType) {
    if (given.kind != Pt2ArgumentKind::real && given.kind != Pt2ArgumentKind::integer) refuse(wanted);
    return real(given, given.elements.at(0));
  }
  if (!takes(type->kind(), given.kind)) refuse(wanted);
  return element(given, given.elements.at(0));
}

}  // namespace memtune::frontend
