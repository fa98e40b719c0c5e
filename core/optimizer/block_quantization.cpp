#include "core/optimizer/block_quantization.h"

#include <ATen/ATen.h>

namespace memtune::optimizer {
namespace {

int64_t blocks_of(int64_t elements) { return (elements + kQuantizedBlock - 1) / kQuantizedBlock; }

// Rows of one block each, the last filled up with zeros.
at::Tensor in_blocks(const at::Tensor& values) {
  const int64_t missing = blocks_of(values.numel()) * kQuantizedBlock - values.numel();
  return (missing == 0 ? values : at::constant_pad_nd(values, {0, missing})).view({-1, kQuantizedBlock});
}

}  // namespace

BlockQuantized make_block_quantized(int64_t elements, c10::Device device) {
  return {at::zeros({elements}, at::TensorOptions(at::kByte).device(device)),
          at::zeros({blocks_of(elements)}, at::TensorOptions(at::kFloat).device(device))};
}

at::Tensor dequantize(const BlockQuantized& from, int64_t begin, int64_t count, const at::Tensor& map) {
  const at::Tensor values = at::index_select(map, 0, from.codes.narrow(0, begin, count).to(at::kInt));
  const at::Tensor scales = from.absmax.narrow(0, begin / kQuantizedBlock, blocks_of(count));
  return in_blocks(values).mul(scales.unsqueeze(1)).view(-1).narrow(0, 0, count);
}

void quantize(const at::Tensor& values, const BlockQuantized& to, int64_t begin, const at::Tensor& map) {
  const int64_t count = values.numel();
  const at::Tensor blocks = in_blocks(values);
  const at::Tensor scales = at::amax(blocks.abs(), 1);
  to.absmax.narrow(0, begin / kQuantizedBlock, blocks.size(0)).copy_(scales);
  const at::Tensor scaled = blocks.mul(scales.reciprocal().unsqueeze(1)).nan_to_num_(0).clamp_(-1, 1).view(-1);
  const at::Tensor middles = (map.slice(0, 0, -1) + map.slice(0, 1)) / 2;
  const at::Tensor codes = at::searchsorted(middles, scaled.narrow(0, 0, count), /*out_int32=*/true);
  to.codes.narrow(0, begin, count).copy_(codes);
}

}  // namespace memtune::optimizer
