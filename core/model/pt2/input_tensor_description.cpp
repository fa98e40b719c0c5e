#include "core/model/pt2/input_tensor_description.h"

#include <map>

#include "core/base/error.h"

namespace memtune::model {
namespace {

// torch.export specializes sizes 0 and 1 and writes 2 as the minimum of a dynamic size. Size 1 works all the same.
constexpr int64_t kMinExport = 2;

constexpr int64_t kMaxInputElements = int64_t{1} << 48;  // the limit of --input

using Sizes = std::map<std::string, int64_t>;  // by symbol

void set(Sizes& sizes, const std::vector<InputTensorDescription>& inputs, size_t dimension, int64_t size,
         const char* flag) {
  if (size == 0) return;
  bool any = false;
  for (const InputTensorDescription& input : inputs) {
    if (input.dimensions.size() <= dimension || input.dimensions[dimension].symbol.empty()) continue;
    sizes[input.dimensions[dimension].symbol] = size;
    any = true;
  }
  if (!any)
    throw UsageError(std::string(flag) +
                     ": the model was exported for the sizes of its sample alone; say "
                     "dynamic_shapes to torch.export.export, with {" +
                     std::to_string(dimension) +
                     ": torch.export.Dim.DYNAMIC} for its inputs, and a sample of at least 2 there");
}

void check_elements(const std::string& name, const std::vector<int64_t>& shape) {
  int64_t elements = 1;
  for (const int64_t size : shape)
    if (__builtin_mul_overflow(elements, size, &elements) || elements > kMaxInputElements)
      throw UsageError("input '" + name + "' has too many elements");
}

}  // namespace

std::vector<std::vector<int64_t>> resize(const std::vector<InputTensorDescription>& inputs, int64_t batch,
                                         int64_t sequence) {
  Sizes sizes;
  set(sizes, inputs, 0, batch, "--batch");
  set(sizes, inputs, 1, sequence, "--seq");
  std::vector<std::vector<int64_t>> shapes;
  for (const InputTensorDescription& input : inputs) {
    shapes.emplace_back();
    for (const InputDimension& dimension : input.dimensions) {
      const auto found = sizes.find(dimension.symbol);
      shapes.back().push_back(found == sizes.end() || dimension.symbol.empty() ? dimension.size : found->second);
    }
    check_elements(input.name, shapes.back());
  }
  return shapes;
}

std::vector<int64_t> repeat_sample(const InputTensorDescription& input, const std::vector<int64_t>& shape) {
  int64_t elements = 1;
  for (const int64_t size : shape) elements *= size;
  std::vector<int64_t> values;
  for (int64_t i = 0; i < elements; ++i) {
    int64_t at = 0, rest = i, stride = 1;
    for (size_t d = shape.size(); d-- > 0; rest /= shape[d], stride *= input.dimensions[d].size)
      at += rest % shape[d] % input.dimensions[d].size * stride;
    values.push_back(input.sample[static_cast<size_t>(at)]);
  }
  return values;
}

void check_shape(const InputTensorDescription& input, const std::vector<int64_t>& shape) {
  const auto refuse = [&](const std::string& why) { throw UsageError("input '" + input.name + "' " + why); };
  if (shape.size() != input.dimensions.size())
    refuse("has " + std::to_string(shape.size()) + " dimensions, the model was exported for " +
           std::to_string(input.dimensions.size()));
  for (size_t i = 0; i < shape.size(); ++i) {
    const InputDimension& known = input.dimensions[i];
    const std::string what = "is " + std::to_string(shape[i]) + " in dimension " + std::to_string(i);
    if (known.symbol.empty() && shape[i] != known.size)
      refuse(what + ", which the export fixed at " + std::to_string(known.size) +
             ": say dynamic_shapes to torch.export.export for others");
    const int64_t least = known.least == kMinExport ? 1 : known.least;
    if (!known.symbol.empty() && (shape[i] < least || shape[i] > known.most))
      refuse(what + ", the export's bounds are " + std::to_string(least) + " and " + std::to_string(known.most));
  }
}

}  // namespace memtune::model
