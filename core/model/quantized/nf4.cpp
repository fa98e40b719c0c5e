#include "core/model/quantized/nf4.h"

#include <ATen/ATen.h>
#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "core/base/device/cuda_kernels.h"
#include "core/base/device/torch/kernels.h"
#include "core/model/quantized/blockwise.h"

namespace memtune::quantized {
namespace {

constexpr int64_t kBlock = 64;
constexpr int64_t kNf4Piece = int64_t{1} << 22;  // elements per operator call
constexpr float kMin = 1e-38F;                   // lower bound of the divisor, for blocks of zeros

// Quantiles of the normal distribution, made symmetric (QLoRA, appendix E).
constexpr std::array<float, 16> kCode = {-1.0F,
                                         -0.6961928009986877F,
                                         -0.5250730514526367F,
                                         -0.39491748809814453F,
                                         -0.28444138169288635F,
                                         -0.18477343022823334F,
                                         -0.09105003625154495F,
                                         0.0F,
                                         0.07958029955625534F,
                                         0.16093020141124725F,
                                         0.24611230194568634F,
                                         0.33791524171829224F,
                                         0.44070982933044434F,
                                         0.5626170039176941F,
                                         0.7229568362236023F,
                                         1.0F};

constexpr std::array<float, 15> bounds() {
  std::array<float, 15> bounds{};
  for (size_t i = 0; i < bounds.size(); ++i) bounds[i] = (kCode[i] + kCode[i + 1]) / 2;
  return bounds;
}
constexpr std::array<float, 15> kBounds = bounds();

// --- by a loop, on the CPU -------------------------------------------------------------------------------------------

// Divides the elements of a partial block and multiplies those of a full one by the inverse, like bitsandbytes.
template <typename Number>
float pack_block(const Number* from, int64_t count, uint8_t* to) {
  float largest = 0;
  for (int64_t i = 0; i < count; ++i) largest = std::max(largest, std::abs(static_cast<float>(from[i])));
  const bool whole = count == kBlock;
  const float divisor = std::max(largest, kMin), inverse = 1 / divisor;
  std::array<float, kBlock> parts{};
  std::array<int32_t, kBlock> codes{};
  for (int64_t i = 0; i < count; ++i) {
    const auto value = static_cast<float>(from[i]);
    parts[i] = std::clamp(whole ? value * inverse : value / divisor, -1.0F, 1.0F);
  }
  for (const float bound : kBounds)  // this loop order lets the compiler vectorize
    for (int64_t i = 0; i < kBlock; ++i) codes[i] += parts[i] > bound ? 1 : 0;
  for (int64_t i = 0; i < count; i += 2) to[i / 2] = static_cast<uint8_t>(codes[i] << 4 | codes[i + 1]);
  return whole ? largest : divisor;
}

template <typename Number>
void pack(const Number* from, int64_t count, uint8_t* to, float* largest) {
  at::parallel_for(0, (count + kBlock - 1) / kBlock, 512, [&](int64_t begin, int64_t end) {
    for (int64_t block = begin; block < end; ++block) {
      const int64_t at = block * kBlock;
      largest[block] = pack_block(from + at, std::min(kBlock, count - at), to + at / 2);
    }
  });
}

template <typename Number>
void unpack(const uint8_t* from, const float* largest, int64_t count, Number* to) {
  at::parallel_for(0, (count + kBlock - 1) / kBlock, 512, [&](int64_t begin, int64_t end) {
    for (int64_t block = begin; block < end; ++block)
      for (int64_t i = block * kBlock; i < std::min(count, (block + 1) * kBlock); ++i) {
        const int code = i % 2 == 0 ? from[i / 2] >> 4 : from[i / 2] & 15;
        to[i] = static_cast<Number>(kCode[code] * largest[block]);
      }
  });
}

// --- by a kernel, on CUDA --------------------------------------------------------------------------------------------

at::Tensor unpack(const Nf4Weight& packed, at::IntArrayRef shape, at::ScalarType type,
                  const device::CudaKernelTable& kernels) {
  const c10::Device device = packed.bytes.device();
  at::Tensor weight = at::empty(shape, packed.bytes.options().dtype(type));
  device::Nf4WeightPointers from;
  from.bytes = packed.bytes.const_data_ptr<uint8_t>();
  from.count = weight.numel();
  std::ranges::copy(kCode, from.code);
  if (packed.largest_of_largest.defined()) {
    from.largest_in_bytes = packed.largest.const_data_ptr<uint8_t>();
    from.largest_of_largest = packed.largest_of_largest.const_data_ptr<float>();
    from.mean = packed.mean.const_data_ptr<float>();
    from.map = signed_map_on(device).const_data_ptr<float>();
  } else {
    from.largest = packed.largest.const_data_ptr<float>();
  }
  kernels.unpack_nf4(from, weight.data_ptr(), device::kernel_dtype(type), device.index());
  return weight;
}

// --- by operators, on any device -------------------------------------------------------------------------------------

// Maps each byte to its two elements.
at::Tensor pairs_on(c10::Device device) {
  static std::mutex mutex;
  static std::map<int, at::Tensor> tables;
  const std::lock_guard lock(mutex);
  at::Tensor& table = tables[static_cast<int>(device.type()) * 256 + device.index()];
  if (table.defined()) return table;
  at::Tensor made = at::empty({256, 2}, at::kFloat);
  for (int byte = 0; byte < 256; ++byte) {
    made.data_ptr<float>()[2 * byte] = kCode[byte >> 4];
    made.data_ptr<float>()[2 * byte + 1] = kCode[byte & 15];
  }
  return table = made.to(device);
}

// In place: scales each block by its factor.
void scale_blocks(const at::Tensor& numbers, const at::Tensor& factors) {
  const int64_t whole = numbers.numel() / kBlock;
  numbers.slice(0, 0, whole * kBlock).view({-1, kBlock}).mul_(factors.slice(0, 0, whole).unsqueeze(1));
  if (whole * kBlock < numbers.numel()) numbers.slice(0, whole * kBlock).mul_(factors.slice(0, whole));
}

at::Tensor largest_of(const at::Tensor& numbers) {
  const int64_t whole = numbers.numel() / kBlock;
  at::Tensor largest = numbers.slice(0, 0, whole * kBlock).view({-1, kBlock}).abs().amax(1);
  if (whole * kBlock == numbers.numel()) return largest;
  const at::Tensor last = numbers.slice(0, whole * kBlock).abs().amax().clamp_min(kMin);
  return at::cat({largest, last.unsqueeze(0)});
}

// `piece` consists of whole blocks, except the last piece. Returns their absmax.
at::Tensor pack_piece(const at::Tensor& piece, const at::Tensor& bytes) {
  at::Tensor numbers = piece.to(at::kFloat, /*non_blocking=*/false, /*copy=*/true);
  const at::Tensor largest = largest_of(numbers);
  scale_blocks(numbers, largest.clamp_min(kMin).reciprocal());
  numbers.clamp_(-1, 1);
  if (numbers.numel() % 2 == 1) numbers = at::constant_pad_nd(numbers, {0, 1});
  const at::Tensor bounds = at::tensor(at::ArrayRef<float>(kBounds), at::kFloat).to(piece.device());
  const at::Tensor codes = at::bucketize(numbers, bounds, /*out_int32=*/true).to(at::kByte).view({-1, 2});
  at::bitwise_or_out(const_cast<at::Tensor&>(bytes), codes.select(1, 0).bitwise_left_shift(4), codes.select(1, 1));
  return largest;
}

at::Tensor largest_of(const Nf4Weight& packed) {
  if (!packed.largest_of_largest.defined()) return packed.largest;
  return unpack_blockwise({packed.largest, packed.largest_of_largest}).add_(packed.mean);
}

// `packed` has flat bytes and float32 absmax.
Nf4Weight finished(Nf4Weight packed, Nf4AbsmaxScaleEncoding magnitudes) {
  packed.bytes = packed.bytes.unsqueeze(1);
  if (magnitudes == Nf4AbsmaxScaleEncoding::plain) return packed;
  packed.mean = packed.largest.mean();
  const BlockwiseEightBitCodesAndAbsmax largest = pack_blockwise(packed.largest - packed.mean);
  packed.largest = largest.bytes;
  packed.largest_of_largest = largest.largest;
  return packed;
}

}  // namespace

Nf4Weight pack_nf4(const at::Tensor& weight, Nf4AbsmaxScaleEncoding magnitudes) {
  if (!weight.is_cpu() && !weight.is_meta()) return pack_nf4_by_operators(weight, magnitudes);
  const at::Tensor flat = weight.detach().contiguous().view(-1);
  Nf4Weight packed;
  packed.bytes = at::empty({(flat.numel() + 1) / 2}, flat.options().dtype(at::kByte));
  packed.largest = at::empty({(flat.numel() + kBlock - 1) / kBlock}, flat.options().dtype(at::kFloat));
  if (flat.is_meta()) return finished(std::move(packed), magnitudes);
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kHalf, at::kBFloat16, flat.scalar_type(), "pack_nf4", [&] {
    pack(flat.const_data_ptr<scalar_t>(), flat.numel(), packed.bytes.data_ptr<uint8_t>(),
         packed.largest.data_ptr<float>());
  });
  return finished(std::move(packed), magnitudes);
}

Nf4Weight pack_nf4_by_operators(const at::Tensor& weight, Nf4AbsmaxScaleEncoding magnitudes) {
  const at::Tensor flat = weight.detach().contiguous().view(-1);
  Nf4Weight packed;
  packed.bytes = at::empty({(flat.numel() + 1) / 2}, flat.options().dtype(at::kByte));
  std::vector<at::Tensor> largest;
  for (int64_t at = 0; at < flat.numel(); at += kNf4Piece)
    largest.push_back(
        pack_piece(flat.slice(0, at, at + kNf4Piece), packed.bytes.slice(0, at / 2, (at + kNf4Piece) / 2)));
  packed.largest = at::cat(largest);
  return finished(std::move(packed), magnitudes);
}

at::Tensor unpack_nf4(const Nf4Weight& packed, at::IntArrayRef shape, at::ScalarType type) {
  if (packed.bytes.is_meta()) return at::empty(shape, packed.bytes.options().dtype(type));
  if (const auto* kernels = device::kernels_for(packed.bytes.device(), type))
    return unpack(packed, shape, type, *kernels);
  if (!packed.bytes.is_cpu()) return unpack_nf4_by_operators(packed, shape, type);
  const at::Tensor largest = largest_of(packed);
  at::Tensor weight = at::empty(shape, type);
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kHalf, at::kBFloat16, type, "unpack_nf4", [&] {
    unpack(packed.bytes.const_data_ptr<uint8_t>(), largest.const_data_ptr<float>(), weight.numel(),
           weight.data_ptr<scalar_t>());
  });
  return weight;
}

at::Tensor unpack_nf4_by_operators(const Nf4Weight& packed, at::IntArrayRef shape, at::ScalarType type) {
  const at::Tensor pairs = pairs_on(packed.bytes.device()), largest = largest_of(packed), bytes = packed.bytes.view(-1);
  at::Tensor weight = at::empty(shape, packed.bytes.options().dtype(type));
  const at::Tensor flat = weight.view(-1);
  for (int64_t at = 0; at < flat.numel(); at += kNf4Piece) {
    const at::Tensor to = flat.slice(0, at, at + kNf4Piece);
    const at::Tensor piece = bytes.slice(0, at / 2, (at + kNf4Piece) / 2).to(at::kInt);
    const at::Tensor numbers = pairs.index_select(0, piece).view(-1).slice(0, 0, to.numel());
    scale_blocks(numbers, largest.slice(0, at / kBlock, (at + kNf4Piece) / kBlock));
    at::Tensor(to).copy_(numbers);
  }
  return weight;
}

}  // namespace memtune::quantized
