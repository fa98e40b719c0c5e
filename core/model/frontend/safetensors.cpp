#include "core/model/frontend/safetensors.h"

#include <ATen/ops/empty.h>

#include "core/model/safetensors/reader.h"

namespace memtune::frontend {

at::ScalarType scalar_type(safetensors::Dtype dtype) {
  using safetensors::Dtype;
  switch (dtype) {
    case Dtype::boolean: return at::kBool;
    case Dtype::u8: return at::kByte;
    case Dtype::i8: return at::kChar;
    case Dtype::i16: return at::kShort;
    case Dtype::f16: return at::kHalf;
    case Dtype::bf16: return at::kBFloat16;
    case Dtype::i32: return at::kInt;
    case Dtype::f32: return at::kFloat;
    case Dtype::i64: return at::kLong;
    case Dtype::f64: break;
  }
  return at::kDouble;
}

std::optional<safetensors::Dtype> dtype_of(at::ScalarType type) {
  for (int i = 0; i <= static_cast<int>(safetensors::Dtype::f64); ++i)
    if (scalar_type(static_cast<safetensors::Dtype>(i)) == type) return static_cast<safetensors::Dtype>(i);
  return std::nullopt;
}

std::vector<std::pair<std::string, at::Tensor>> read_safetensors(const std::filesystem::path& path,
                                                                 c10::DeviceType device) {
  const safetensors::Reader file(path);
  std::vector<std::pair<std::string, at::Tensor>> tensors;
  for (const safetensors::TensorEntry& entry : file.entries()) {
    at::Tensor tensor = at::empty(entry.shape, at::TensorOptions(scalar_type(entry.dtype)).device(device));
    if (!tensor.is_meta()) file.read(entry, static_cast<char*>(tensor.data_ptr()));
    tensors.emplace_back(entry.name, tensor);
  }
  return tensors;
}

}  // namespace memtune::frontend
