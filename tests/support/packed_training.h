// A small decoder that trains on one packed row of documents of several lengths, to compare attention implementations,
// and strategies with `none`.
#pragma once

#include <ATen/ATen.h>
#include <doctest/doctest.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "core/measure/trial/deterministic_scope.h"
#include "core/measure/trial/forward_backward_runner.h"
#include "core/measure/trial/loaded_model_forward_backward_session.h"
#include "core/model/safetensors/layout.h"
#include "core/plan/rules/strategy.h"
#include "core/plan/strategy/strategy.h"
#include "tests/support/rounding.h"
#include "tests/support/run_program.h"

namespace memtune::tests {

inline const char* const kConfig = R"({"model_type": "mistral", "vocab_size": 211, "num_hidden_layers": 3,
  "num_attention_heads": 4, "num_key_value_heads": 2, "rms_norm_eps": 1e-5, "hidden_act": "silu", )";
// CPUs without instructions for bfloat16 need seconds for products of the larger size.
inline const char* const kSizes = R"("hidden_size": 256, "intermediate_size": 384)";
inline const char* const kSizesOnCpu = R"("hidden_size": 64, "intermediate_size": 96)";

inline const std::vector<int64_t> kLengths = {150, 1, 77, 284};  // of documents

struct PackedPlace : test::ScratchFolder {
  PackedPlace(std::string device, const std::string& window) : device(std::move(device)) {
    std::ofstream(path / "config.json") << kConfig << (this->device == "cpu" ? kSizesOnCpu : kSizes)
                                        << R"(, "sliding_window": )" << window << "}";
    write_inputs();
  }

  plan::TrialRequest request(const std::string& attention, const std::string& dtype) const {
    plan::TrialRequest request;
    request.model.path = (path / "config.json").string();
    request.model.inputs_file = (path / "inputs.safetensors").string();
    request.training.loss = "causal_lm";
    request.training.attention = attention;
    request.training.pack = true;
    request.training.dtype = dtype;
    request.training.device = device;
    return request;
  }

  std::string device;

 private:
  void write_inputs() const {
    std::vector<int64_t> tokens, positions;
    for (const int64_t length : kLengths)
      for (int64_t i = 0; i < length; ++i) {
        positions.push_back(i);
        tokens.push_back(static_cast<int64_t>(tokens.size() * 7919 % 211));
      }
    const auto total = static_cast<int64_t>(tokens.size());
    safetensors::Header header;
    const std::vector<safetensors::TensorNameDtypeAndShape> specs = {
        {"input_ids", safetensors::Dtype::i64, {1, total}}, {"position_ids", safetensors::Dtype::i64, {1, total}}};
    header.entries = safetensors::lay_out(specs);
    std::ofstream file(path / "inputs.safetensors", std::ios::binary);
    file << safetensors::print_header(header);
    for (const auto& numbers : {tokens, positions})
      file.write(reinterpret_cast<const char*>(numbers.data()),
                 static_cast<std::streamsize>(numbers.size() * sizeof(int64_t)));
  }
};

struct Trained {
  at::Tensor loss;
  std::vector<at::Tensor> gradients;
};

inline Trained train(const plan::TrialRequest& request) {
  const trial::DeterministicScope kernels(/*errors=*/true);
  const auto runner = trial::make_runner(request);
  Trained trained;
  for (int step = 0; step < 2; ++step) {  // in the second step engines use what they recorded in the first
    runner->drop_gradients();
    trained.loss = runner->forward_backward().detach().clone();
  }
  for (const at::Tensor& parameter : runner->parameter_tensors()) trained.gradients.push_back(parameter.grad().clone());
  return trained;
}

inline plan::TrialRequest planned(plan::TrialRequest request, const std::string& strategy) {
  trial::LoadedModelForwardBackwardSession session(request);
  session.survey();
  request.plan = plan::make_plan(plan::Strategy::parse(strategy), session.facts());
  request.plan.saved_min_bytes = 0;
  request.plan.transfer.min_bytes = 0;
  return request;
}

// The norm of the difference, relative to the norm of `expected`.
inline double apart(const at::Tensor& found, const at::Tensor& expected) {
  const at::Tensor right = expected.to(at::kDouble), difference = found.to(at::kDouble) - right;
  return (difference.norm() / right.norm().clamp_min(1e-12)).item<double>();
}

inline double most_apart(const Trained& found, const Trained& expected) {
  REQUIRE(found.gradients.size() == expected.gradients.size());
  double most = 0;
  for (size_t i = 0; i < found.gradients.size(); ++i)
    most = std::max(most, apart(found.gradients[i], expected.gradients[i]));
  return most;
}

// The distance of sdpa in bfloat16 from float32 shows the effect of rounding here. flash-varlen may differ as much in
// the other direction. The loss, a mean over tokens, may differ by one rounding.
inline void check_near(const Trained& flash, const Trained& sdpa, const Trained& in_float) {
  CHECK(apart(flash.loss, sdpa.loss) <= unit_roundoff(at::kBFloat16));
  CHECK(most_apart(flash, sdpa) <= 2 * most_apart(sdpa, in_float));
}

inline void check_equal(const Trained& found, const Trained& expected) {
  CHECK(at::equal(found.loss, expected.loss));
  REQUIRE(found.gradients.size() == expected.gradients.size());
  for (size_t i = 0; i < found.gradients.size(); ++i) CHECK(at::equal(found.gradients[i], expected.gradients[i]));
}

// Properties of flash-varlen's kernel on every device.

inline void check_window_counts(const char* device) {
  const PackedPlace whole(device, "null"), windowed(device, "32");
  const Trained all = train(whole.request("flash-varlen", "bfloat16"));
  CHECK(most_apart(train(windowed.request("flash-varlen", "bfloat16")), all) > 0.1);
}

inline void check_autocast_casts(const char* device) {
  const PackedPlace place(device, "null");
  plan::TrialRequest flash = place.request("flash-varlen", "float32"), sdpa = place.request("sdpa", "float32");
  const Trained in_float = train(sdpa);
  flash.training.autocast = sdpa.training.autocast = "bfloat16";
  check_near(train(flash), train(sdpa), in_float);
}

inline void check_equal_under_strategies(const char* device) {
  const PackedPlace place(device, "32");
  const plan::TrialRequest none = place.request("flash-varlen", "bfloat16");
  const Trained kept = train(none);
  check_equal(train(none), kept);
  for (const char* strategy : {"checkpoint:full", "checkpoint:cheap", "checkpoint:op", "offload:stream", "offload:sync",
                               "checkpoint:full,inputs=host"}) {
    CAPTURE(strategy);
    check_equal(train(planned(none, strategy)), kept);
  }
}

}  // namespace memtune::tests
