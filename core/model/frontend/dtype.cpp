#include "core/model/frontend/dtype.h"

#include <map>

#include "core/base/error.h"
#include "core/base/text.h"
#include "core/base/vocabulary.h"

namespace memtune::frontend {
namespace {

const std::map<std::string, at::ScalarType>& scalar_types() {
  static const std::map<std::string, at::ScalarType> types = {
      {"float32", at::kFloat}, {"float64", at::kDouble}, {"float16", at::kHalf}, {"bfloat16", at::kBFloat16},
      {"int64", at::kLong},    {"int32", at::kInt},      {"int16", at::kShort},  {"int8", at::kChar},
      {"uint8", at::kByte},    {"bool", at::kBool}};
  return types;
}

}  // namespace

at::ScalarType scalar_type(const std::string& dtype) { return scalar_types().at(dtype); }

std::string name_of(at::ScalarType type) {
  for (const auto& [name, candidate] : scalar_types())
    if (candidate == type) return name;
  return c10::toString(type);
}

at::ScalarType weight_type(const std::string& dtype) {
  auto found = scalar_types().find(dtype);
  if (found == scalar_types().end() || !at::isFloatingType(found->second))
    throw UsageError("a model cannot be cast to " + dtype + "; valid: " + join(kParameterDtypes, ", "));
  return found->second;
}

}  // namespace memtune::frontend
