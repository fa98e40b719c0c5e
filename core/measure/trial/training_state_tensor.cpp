#include "core/measure/trial/training_state_tensor.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <limits>
#include <numeric>
#include <sstream>

#include "core/base/error.h"
#include "core/base/text.h"
#include "core/model/frontend/safetensors.h"

namespace memtune::trial {
namespace {

// Complex numbers become pairs of reals, because safetensors files have only reals.
at::Tensor in_reals(const at::Tensor& tensor) {
  return tensor.is_complex() ? at::view_as_real(tensor.resolve_conj()) : tensor;
}

// Contiguous elements, as in files. Copies if they are not contiguous, to host memory if the device has no room.
at::Tensor contiguous(const at::Tensor& tensor) {
  try {
    return tensor.contiguous();
  } catch (const c10::OutOfMemoryError&) {
    return tensor.cpu().contiguous();
  }
}

std::string describe(std::string_view dtype, const std::vector<int64_t>& shape) {
  std::vector<std::string> sizes;
  for (const int64_t size : shape) sizes.push_back(std::to_string(size));
  return std::string(dtype) + "[" + join(sizes, ",") + "]";
}

std::string describe(const TrainingStateTensor& item) {
  const safetensors::TensorNameDtypeAndShape spec = spec_of(item);
  return describe(to_string(spec.dtype), item.part ? item.part->whole : spec.shape);
}

// The row of which the item has elements, and these elements.
struct ItemRow {
  state::ShardExtent extent;
  at::Tensor numbers;
};
std::optional<ItemRow> numbers_of(const TrainingStateTensor& item) {
  if (item.part) return ItemRow{*item.part, in_reals(item.tensor).flatten()};
  const auto extent = row_of(item.tensor);
  if (!extent) return std::nullopt;
  const at::Tensor reals = in_reals(item.tensor);
  return ItemRow{*extent, reals.as_strided({reals.numel()}, {1})};
}

// Elements of a whole tensor in the order of a row.
at::Tensor in_order(const at::Tensor& whole, const state::ShardExtent& row) {
  return row.order.empty() ? whole.flatten() : whole.permute(row.order).flatten();
}

void copy_common(const at::Tensor& from, int64_t from_begin, const at::Tensor& to, int64_t to_begin) {
  const int64_t begin = std::max(from_begin, to_begin);
  const int64_t end = std::min(from_begin + from.numel(), to_begin + to.numel());
  if (begin < end) to.narrow(0, begin - to_begin, end - begin).copy_(from.narrow(0, begin - from_begin, end - begin));
}

}  // namespace

std::string describe(const state::ManifestTensorEntry& saved) {
  return describe(to_string(saved.dtype), saved.part ? saved.part->whole : saved.shape);
}

// The position of a dimension of size 1 does not matter.
std::optional<state::ShardExtent> row_of(const at::Tensor& tensor) {
  const bool plain = tensor.layout() == at::kStrided && !tensor.is_quantized() && !tensor.is_conj() && !tensor.is_neg();
  if (!plain || !tensor.is_non_overlapping_and_dense()) return std::nullopt;
  state::ShardExtent row{tensor.sizes().vec()};
  std::vector<int64_t> strides = tensor.strides().vec();
  if (tensor.is_complex()) {
    row.whole.push_back(2);
    for (int64_t& stride : strides) stride *= 2;
    strides.push_back(1);
  }
  row.order.resize(row.whole.size());
  std::iota(row.order.begin(), row.order.end(), 0);
  const auto rank_of = [&](int64_t i) {
    const auto at = static_cast<size_t>(i);
    return row.whole[at] == 1 ? std::numeric_limits<int64_t>::max() : strides[at];
  };
  std::vector<int64_t> larger, sorted;
  std::ranges::copy_if(row.order, std::back_inserter(larger),
                       [&](int64_t i) { return row.whole[static_cast<size_t>(i)] > 1; });
  sorted = larger;
  std::ranges::stable_sort(sorted, std::greater<>(), rank_of);
  if (sorted == larger) {
    row.order.clear();
  } else {
    std::ranges::stable_sort(row.order, std::greater<>(), rank_of);
  }
  return row;
}

state::ShardExtent part_of(state::ShardExtent row, int64_t begin, bool complex) {
  row.begin = complex ? 2 * begin : begin;
  return row;
}

safetensors::TensorNameDtypeAndShape spec_of(const TrainingStateTensor& item) {
  const at::Tensor& tensor = item.tensor;
  const auto dtype = tensor.layout() == at::kStrided && !tensor.is_quantized()
                         ? frontend::dtype_of(in_reals(tensor).scalar_type())
                         : std::nullopt;
  if (!dtype) {
    std::ostringstream text;
    text << "'" << item.name << "' cannot be saved: it is " << tensor.toString()
         << ", which safetensors files do not have";
    throw UsageError(text.str());
  }
  const at::Tensor reals = in_reals(tensor);
  return {item.name, *dtype, item.part ? std::vector<int64_t>{reals.numel()} : reals.sizes().vec()};
}

state::TensorToSave state_part(const TrainingStateTensor& item, bool changes_in_forward, c10::Device device) {
  const at::Tensor& tensor = item.tensor;
  const at::Tensor plain = contiguous(in_reals(tensor.detach().resolve_neg()));
  state::TensorToSave part;
  part.spec = spec_of(item);
  part.part = item.part;
  part.data = static_cast<const char*>(plain.const_data_ptr());
  part.on_device = device.is_cpu() || !plain.is_cpu();
  part.memory = plain.storage().data();
  part.owner = std::make_shared<at::Tensor>(plain);
  // A copy is saved first, so that forwards have its memory.
  const bool is_copy = part.memory != tensor.storage().data();
  part.changes_in_forward = changes_in_forward || is_copy;
  if (is_copy || tensor.is_inference()) return part;
  part.is_unchanged = [tensor, version = tensor._version()] { return tensor._version() == version; };
  return part;
}

std::string difference(const TrainingStateTensor& item, const state::ManifestTensorEntry& saved) {
  const std::string is = describe(saved), own = describe(item);
  if (own != is) return "'" + item.name + "' is " + is + " there and " + own + " here";
  if (!saved.part) return "";
  const auto row = numbers_of(item);
  return row && row->extent.order == saved.part->order ? "" : "'" + item.name + "' lies in memory in another order";
}

void take(const TrainingStateTensor& item, const state::ManifestTensorEntry& saved, std::span<const char> bytes) {
  const at::Tensor numbers =
      at::from_blob(const_cast<char*>(bytes.data()), saved.shape, frontend::scalar_type(saved.dtype));
  if (item.put) return item.put(numbers.clone());
  if (!item.part && !saved.part) {
    item.tensor.copy_(item.tensor.is_complex() ? at::view_as_complex(numbers) : numbers);
    return;
  }
  const ItemRow row = numbers_of(item).value();
  copy_common(saved.part ? numbers : in_order(numbers, row.extent), saved.part ? saved.part->begin : 0, row.numbers,
              row.extent.begin);
}

}  // namespace memtune::trial
