#include "core/model/frontend/pt2/loaded_pt2_tensors.h"

#include <ATen/ATen.h>

#include <tuple>

#include "core/base/error.h"
#include "core/base/utf8.h"
#include "core/model/frontend/pt2/schema_numbers.h"

namespace memtune::frontend {
namespace {

using model::Pt2TensorEntry;

at::Tensor read_bytes(const model::Pt2Archive& archive, const std::string& record, c10::Device device) {
  if (device.is_meta()) return at::empty({archive.bytes(record)}, at::TensorOptions(at::kByte).device(device));
  const at::Tensor bytes = at::empty({archive.bytes(record)}, at::kByte);
  if (bytes.numel() > 0) archive.read(record, static_cast<char*>(bytes.data_ptr()));
  return bytes.to(device);
}

at::Tensor view(const at::Tensor& bytes, const Pt2TensorEntry& tensor) {
  const auto type = scalar_type_of(tensor.dtype);
  if (tensor.trained && !at::isFloatingType(type) && !at::isComplexType(type))
    throw UsageError("'" + printable(tensor.name) + "' cannot be trained: it holds no real numbers");
  const at::Tensor empty = at::empty({0}, bytes.options().dtype(type));
  return empty.set_(bytes.storage(), tensor.offset, tensor.sizes, tensor.strides).requires_grad_(tensor.trained);
}

}  // namespace

LoadedPt2Tensors::LoadedPt2Tensors(const model::Pt2Archive& archive, const std::vector<Pt2TensorEntry>& tensors,
                                   c10::Device device) {
  using Place = std::tuple<std::string, int64_t, int64_t, std::vector<int64_t>, std::vector<int64_t>, bool>;
  std::map<std::string, at::Tensor> records;
  std::map<Place, at::Tensor> views;
  for (const Pt2TensorEntry& tensor : tensors) {
    at::Tensor& known =
        views[{tensor.record, tensor.dtype, tensor.offset, tensor.sizes, tensor.strides, tensor.trained}];
    if (!known.defined()) {
      at::Tensor& bytes = records[tensor.record];
      if (!bytes.defined()) bytes = read_bytes(archive, tensor.record, device);
      known = view(bytes, tensor);
    }
    tensors_.emplace(tensor.name, known);
  }
}

const at::Tensor& LoadedPt2Tensors::find(const std::string& name) const {
  const auto found = tensors_.find(name);
  if (found == tensors_.end()) throw UsageError("it has no tensor '" + printable(name) + "'");
  return found->second;
}

}  // namespace memtune::frontend
