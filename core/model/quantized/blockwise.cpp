#include "core/model/quantized/blockwise.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <mutex>

#include "core/model/quantized/dynamic_map.h"

namespace memtune::quantized {
namespace {

constexpr int64_t kBlockNumbers = 256;

int64_t blocks_of(int64_t count) { return (count + kBlockNumbers - 1) / kBlockNumbers; }

// One row per block; the last is padded with zeros.
at::Tensor in_blocks(const at::Tensor& numbers) {
  const int64_t missing = blocks_of(numbers.numel()) * kBlockNumbers - numbers.numel();
  return (missing == 0 ? numbers : at::constant_pad_nd(numbers, {0, missing})).view({-1, kBlockNumbers});
}

using Code = std::array<float, 256>;

Code make_code() {
  const at::Tensor map = dynamic_map(true, c10::kCPU);
  Code code{};
  std::copy_n(map.const_data_ptr<float>(), code.size(), code.begin());
  return code;
}

const Code& code() {
  static const Code made = make_code();
  return made;
}

uint8_t nearest(float value) {
  const Code& all = code();
  const auto* right = std::ranges::lower_bound(all, value);
  if (right == all.begin()) return 0;
  if (right == all.end()) return 255;
  const auto index = static_cast<uint8_t>(right - all.begin());
  return std::abs(*right - value) < std::abs(value - *(right - 1)) ? index : index - 1;
}

// Looks up the nearest of 65536 steps from -1 to 1, like bitsandbytes' CPU code.
uint8_t code_of(float part) {
  constexpr float kHalf = 32767.5F;
  static const auto table = [] {
    std::array<uint8_t, 65536> made{};
    for (size_t i = 0; i < made.size(); ++i) made[i] = nearest(static_cast<float>(i) / kHalf - 1);
    return made;
  }();
  return table[static_cast<size_t>((part + 1) * kHalf + 0.5F)];
}

}  // namespace

const at::Tensor& signed_map_on(c10::Device device) {
  static std::mutex mutex;
  static std::map<int, at::Tensor> tables;
  const std::lock_guard lock(mutex);
  at::Tensor& table = tables[static_cast<int>(device.type()) * 256 + device.index()];
  if (!table.defined()) table = at::tensor(at::ArrayRef<float>(code()), at::kFloat).to(device);
  return table;
}

// Runs on the CPU: only one element in 64 of a weight is packed here.
BlockwiseEightBitCodesAndAbsmax pack_blockwise(const at::Tensor& numbers) {
  if (numbers.is_meta()) return make_blockwise(numbers.numel(), numbers.device());
  const at::Tensor plain = numbers.to(at::kCPU).contiguous();
  const int64_t count = plain.numel(), blocks = blocks_of(count);
  BlockwiseEightBitCodesAndAbsmax packed{at::empty({count}, at::kByte), at::empty({blocks}, at::kFloat)};
  const float* from = plain.const_data_ptr<float>();
  auto* bytes = packed.bytes.data_ptr<uint8_t>();
  for (int64_t block = 0; block < blocks; ++block) {
    const int64_t begin = block * kBlockNumbers, end = std::min(count, begin + kBlockNumbers);
    float largest = 0;
    for (int64_t i = begin; i < end; ++i) largest = std::max(largest, std::abs(from[i]));
    packed.largest.data_ptr<float>()[block] = largest;
    const float inverse = 1 / largest;
    for (int64_t i = begin; i < end; ++i)
      bytes[i] = largest == 0 ? 0 : code_of(std::clamp(from[i] * inverse, -1.0F, 1.0F));
  }
  return {packed.bytes.to(numbers.device()), packed.largest.to(numbers.device())};
}

at::Tensor unpack_blockwise(const BlockwiseEightBitCodesAndAbsmax& packed) {
  return unpack_blockwise(packed, 0, packed.bytes.numel(), signed_map_on(packed.bytes.device()));
}

BlockwiseEightBitCodesAndAbsmax make_blockwise(int64_t count, c10::Device device) {
  return {at::zeros({count}, at::TensorOptions(at::kByte).device(device)),
          at::zeros({blocks_of(count)}, at::TensorOptions(at::kFloat).device(device))};
}

void pack_blockwise(const at::Tensor& numbers, const BlockwiseEightBitCodesAndAbsmax& to, int64_t begin,
                    const at::Tensor& map) {
  const int64_t count = numbers.numel();
  const at::Tensor blocks = in_blocks(numbers);
  const at::Tensor largest = at::amax(blocks.abs(), 1);
  to.largest.narrow(0, begin / kBlockNumbers, blocks.size(0)).copy_(largest);
  const at::Tensor parts = blocks.mul(largest.reciprocal().unsqueeze(1)).nan_to_num_(0).clamp_(-1, 1).view(-1);
  const at::Tensor middles = (map.slice(0, 0, -1) + map.slice(0, 1)) / 2;
  to.bytes.narrow(0, begin, count).copy_(at::searchsorted(middles, parts.narrow(0, 0, count), /*out_int32=*/true));
}

at::Tensor unpack_blockwise(const BlockwiseEightBitCodesAndAbsmax& packed, int64_t begin, int64_t count,
                            const at::Tensor& map) {
  const at::Tensor parts = map.index_select(0, packed.bytes.narrow(0, begin, count).to(at::kInt));
  const at::Tensor largest = packed.largest.narrow(0, begin / kBlockNumbers, blocks_of(count));
  return in_blocks(parts).mul_(largest.unsqueeze(1)).view(-1).narrow(0, 0, count);
}

}  // namespace memtune::quantized
