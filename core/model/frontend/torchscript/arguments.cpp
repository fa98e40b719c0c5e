#include "core/model/frontend/torchscript/arguments.h"

#include "core/base/error.h"
#include "core/base/text.h"
#include "core/model/frontend/schema_type.h"

namespace memtune::frontend {
namespace {

using c10::IValue;
using c10::TypeKind;

bool is_number(const c10::TypePtr& type) {
  const TypeKind kind = without_none(type)->kind();
  return kind == TypeKind::IntType || kind == TypeKind::FloatType || kind == TypeKind::BoolType ||
         kind == TypeKind::StringType;
}

IValue parse(const c10::Argument& argument, const std::string& text) {
  const std::string what = "--input " + argument.name();
  const auto type = without_none(argument.type());
  if (text == "None" && type != argument.type()) return {};
  switch (type->kind()) {
    case TypeKind::IntType: return parse_integer(text, what);
    case TypeKind::FloatType: return parse_number(text, what);
    case TypeKind::StringType: return text;
    default: break;
  }
  const bool yes = text == "true" || text == "True" || text == "1",
             no = text == "false" || text == "False" || text == "0";
  if (!yes && !no) throw UsageError(what + ": '" + text + "' is neither true nor false");
  return yes;
}

}  // namespace

bool takes_tensor(const c10::Argument& argument) { return c10::TensorType::get()->isSubtypeOf(*argument.type()); }

void check_arguments(const c10::FunctionSchema& forward, const std::vector<std::string>& given) {
  std::vector<std::string> names;
  for (size_t i = 1; i < forward.arguments().size(); ++i) names.push_back(forward.arguments()[i].name());
  for (const std::string& text : given) {
    const std::string name = text.substr(0, text.find('='));
    const auto index = forward.argumentIndexWithName(name);
    if (!index || *index == 0) throw UsageError(unknown_name("input", name, names));
    if (takes_tensor(forward.arguments()[*index]))
      throw UsageError("--input " + text + ": '" + name + "' is a tensor; say what it is, as in '" + name +
                       ":int64[2,128]<1000'");
  }
}

IValue value_of(const c10::Argument& argument, const std::vector<std::string>& given) {
  const std::string start = argument.name() + "=";
  const std::string type = argument.type()->annotation_str();
  for (const std::string& text : given) {
    if (!text.starts_with(start)) continue;
    if (is_number(argument.type())) return parse(argument, text.substr(start.size()));
    throw UsageError("--input " + text + ": forward's argument is a " + type +
                     "; memtune gives tensors, numbers and text");
  }
  if (argument.default_value()) return *argument.default_value();
  if (is_number(argument.type()))
    throw UsageError("forward's argument '" + argument.name() + "' is a " + type + " without a default; say --input '" +
                     start + "VALUE'");
  throw UsageError("forward's argument '" + argument.name() + "' is a " + type +
                   ": memtune gives a model tensors, numbers and text; export a module whose forward takes the tensors "
                   "one by one and makes it of them");
}

}  // namespace memtune::frontend
