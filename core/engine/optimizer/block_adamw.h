// AdamW as in bitsandbytes 0.50 (block_update.h), with moments in float32 or in blocks of 8 bits. Embeddings and
// parameters of fewer than 4 096 elements always have float32 moments. Paged moments stay in host memory and are copied
// to the device for their update. Parameters of fewer than 100 000 elements are not paged. (bitsandbytes leaves paging
// to the driver.)
#pragma once

#include <unordered_set>

#include "core/engine/optimizer/block_update.h"
#include "core/engine/optimizer/optimizer.h"
#include "core/model/quantized/blockwise.h"

namespace memtune::optimizer {

class BitsandbytesAdamW final : public Optimizer {
 public:
  BitsandbytesAdamW(const OptimizerSettings& settings, std::vector<at::Tensor> parameters, bool in_8_bits, bool paged);

  int64_t state_bytes() const override;
  std::vector<std::pair<std::string, at::Tensor>> state(size_t i) const override;
  void make_state(size_t i) override;

 private:
  struct State {
    quantized::BlockwiseEightBitCodesAndAbsmax first, second;  // float32: in `bytes`, without `largest`
    at::Tensor step;                                           // on the CPU
  };

  void update(const std::vector<size_t>& parameters) override;
  void drop_state(size_t i) override { states_[i] = {}; }
  void update(const at::Tensor& parameter, const State& state) const;

  bool fits_8_bits(const at::Tensor& parameter) const;

  const bool in_8_bits_, paged_;
  const std::unordered_set<const void*> embeddings_;
  std::vector<State> states_;
  QuantizedMomentCodebooks maps_;
};

}  // namespace memtune::optimizer
