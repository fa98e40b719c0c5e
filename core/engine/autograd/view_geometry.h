// Sizes, strides, offset and dtype of a tensor: enough to rebuild the same view over the same bytes.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/SmallVector.h>

namespace memtune::autograd {

struct ViewGeometry {
  c10::SmallVector<int64_t, 5> sizes, strides;
  int64_t offset = 0;  // in elements
  caffe2::TypeMeta dtype;
  bool conjugate = false, negative = false;  // conjugate and negative bits of a lazy view
  bool number = false;                       // wrapped Python number: does not take part in type promotion

  ViewGeometry() = default;
  explicit ViewGeometry(const at::Tensor& tensor)
      : sizes(tensor.sizes()),
        strides(tensor.strides()),
        offset(tensor.storage_offset()),
        dtype(tensor.dtype()),
        conjugate(tensor.is_conj()),
        negative(tensor.is_neg()),
        number(tensor.unsafeGetTensorImpl()->is_wrapped_number()) {}

  // The same tensor over `storage`, without autograd history.
  at::Tensor view(const at::Storage& storage) const {
    const c10::Device device = storage.device();
    const auto key = device.is_cuda()   ? c10::DispatchKey::CUDA
                     : device.is_meta() ? c10::DispatchKey::Meta
                                        : c10::DispatchKey::CPU;
    auto tensor = at::detail::make_tensor<c10::TensorImpl>(c10::Storage(storage), c10::DispatchKeySet(key), dtype);
    tensor.unsafeGetTensorImpl()->set_sizes_and_strides(sizes, strides, offset);
    if (conjugate) tensor._set_conj(true);
    if (negative) tensor._set_neg(true);
    if (number) tensor.unsafeGetTensorImpl()->set_wrapped_number(true);
    return tensor;
  }
};

// True if ViewGeometry describes the tensor: strided bytes on a CPU or CUDA device, or their shapes. False for
// autograd's zero tensors, which have no memory.
inline bool is_plain(const at::Tensor& tensor) {
  return tensor.layout() == at::kStrided && tensor.has_storage() && !tensor.is_quantized() &&
         !tensor._is_zerotensor() && (tensor.is_cpu() || tensor.is_cuda() || tensor.is_meta());
}

}  // namespace memtune::autograd
