#include <algorithm>
#include <limits>
#include <map>

#include "core/base/error.h"
#include "core/base/text.h"
#include "core/plan/request/trial_request.h"

namespace memtune::plan {
namespace {

const std::vector<std::string>& dtype_names() {
  static const std::vector<std::string> names = {"float32", "float64", "float16", "bfloat16", "int64",
                                                 "int32",   "int16",   "int8",    "uint8",    "bool"};
  return names;
}

const std::map<std::string, std::string>& dtype_aliases() {
  static const std::map<std::string, std::string> aliases = {
      {"fp32", "float32"}, {"float", "float32"}, {"fp64", "float64"}, {"double", "float64"}, {"fp16", "float16"},
      {"half", "float16"}, {"bf16", "bfloat16"}, {"long", "int64"},   {"int", "int32"},      {"short", "int16"}};
  return aliases;
}

// Exclusive upper bounds of integer dtypes; 0 for other dtypes. int64 needs no check.
int64_t most_below(const std::string& dtype) {
  static const std::map<std::string, int64_t> bounds = {{"int64", std::numeric_limits<int64_t>::max()},
                                                        {"int32", int64_t{1} << 31},
                                                        {"int16", 1 << 15},
                                                        {"int8", 1 << 7},
                                                        {"uint8", 1 << 8}};
  const auto bound = bounds.find(dtype);
  return bound == bounds.end() ? 0 : bound->second;
}

[[noreturn]] void refuse(const std::string& text, const std::string& why) {
  throw UsageError("input '" + text + "': " + why + "; the form is name:dtype[sizes]<bound, as in " +
                   "tokens:int64[4,4096]<32000 or image:float32[8,3,224,224]");
}

int64_t positive_integer(const std::string& input, const std::string& text, const std::string& what) {
  int64_t number = 0;
  try {
    number = parse_integer(text, what);
  } catch (const UsageError&) {
  }
  if (number < 1) refuse(input, what + " '" + text + "' is not a whole number of at least 1");
  return number;
}

std::vector<int64_t> parse_shape(const std::string& input, const std::string& text) {
  std::vector<int64_t> shape;
  if (trim(text).empty()) return shape;
  int64_t elements = 1;
  for (const std::string& size : split(text, ',')) {
    shape.push_back(positive_integer(input, trim(size), "size"));
    if (__builtin_mul_overflow(elements, shape.back(), &elements) || elements > (int64_t{1} << 48))
      refuse(input, "that is too many elements");
  }
  return shape;
}

int64_t parse_bound(const std::string& input, const std::string& text, const std::string& dtype) {
  const int64_t most = most_below(dtype);
  if (most == 0) refuse(input, "a bound is for integers, not for " + dtype);
  const int64_t below = positive_integer(input, text, "bound");
  if (below > most) refuse(input, "bound " + text + " is more than " + dtype + " can hold");
  return below;
}

std::string parse_dtype(const std::string& input, const std::string& text) {
  try {
    return canonical_dtype(text);
  } catch (const UsageError& error) {
    throw UsageError("input '" + input + "': " + error.what());
  }
}

}  // namespace

std::string canonical_dtype(const std::string& text) {
  const auto& names = dtype_names();
  if (std::find(names.begin(), names.end(), text) != names.end()) return text;
  const auto alias = dtype_aliases().find(text);
  if (alias == dtype_aliases().end()) throw UsageError(unknown_name("dtype", text, names));
  return alias->second;
}

InputSpec parse_input_spec(const std::string& text) {
  const size_t open = text.find('[');
  const size_t close = text.find(']', open == std::string::npos ? 0 : open);
  if (open == std::string::npos || close == std::string::npos) refuse(text, "there is no [sizes]");
  const size_t colon = text.rfind(':', open);
  if (colon == std::string::npos) refuse(text, "there is no ':' before the dtype");
  InputSpec spec;
  spec.name = trim(text.substr(0, colon));
  spec.dtype = parse_dtype(text, trim(text.substr(colon + 1, open - colon - 1)));
  spec.shape = parse_shape(text, text.substr(open + 1, close - open - 1));
  const std::string rest = trim(text.substr(close + 1));
  if (rest.empty()) return spec;
  if (rest[0] != '<') refuse(text, "'" + rest + "' behind the sizes is not a bound");
  spec.below = parse_bound(text, trim(rest.substr(1)), spec.dtype);
  return spec;
}

bool is_argument(const std::string& text) {
  const size_t equals = text.find('=');
  return equals != std::string::npos && equals > 0 && equals < text.find_first_of(":[<");
}

std::string to_string(const InputSpec& spec) {
  std::vector<std::string> sizes;
  for (int64_t size : spec.shape) sizes.push_back(std::to_string(size));
  const std::string bound = spec.below ? "<" + std::to_string(*spec.below) : "";
  return spec.name + ":" + spec.dtype + "[" + join(sizes, ",") + "]" + bound;
}

}  // namespace memtune::plan
