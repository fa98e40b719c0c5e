// Every front end joins this suite: a model must be the same in every form. Loss, gradients and peak memory of a
// training step are compared with TorchScript's own executor. Loss and gradients are equal bit for bit.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <doctest/doctest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <regex>

#include "core/engine/autograd/hooks.h"
#include "core/model/frontend/front_end.h"
#include "core/model/frontend/loss.h"
#include "core/model/program/blocks.h"
#include "core/model/program/buffer_and_rng_state_guard.h"
#include "core/model/program/facts.h"
#include "core/model/program/interpreter.h"
#include "tests/frontend/decoder_module.h"
#include "tests/frontend/exported_archive.h"
#include "tests/support/training.h"
namespace memtune::frontend::conformance_test {
namespace {

namespace fs = std::filesystem;
using program::Program;
using tests::Form;

constexpr tests::DecoderSizes kSizes = {
    .vocabulary = 32, .hidden = 16, .blocks = 3, .heads = 4, .kv_heads = 2, .mlp = 24, .sequence = 12};

c10::Device place() { return device::torch_device(tests::test_device()); }

Program written(const std::string& dtype) {
  return tests::build_decoder(kSizes, dtype.empty() ? at::kFloat : at::kBFloat16, place(), 5);
}

// A member of the suite: a function that makes the model in its form, and the notes that a user sees.
struct Member {
  std::string kind;
  std::vector<std::string> notes;
  std::function<ModelSourceAndLoweringOptions(const std::string& path, const std::string& dtype)> make;
  std::string tokens = "tokens";  // name of its input
};

ModelSourceAndLoweringOptions save(Form form, const std::string& path, const std::string& dtype) {
  tests::decoder_module(kSizes, written("").state, form).save(path);
  return {{path, ""}, dtype, place(), 0, 0};
}

ModelSourceAndLoweringOptions save_exported(const std::string& path, const std::string& dtype) {
  std::ofstream(path, std::ios::binary) << tests::exported_archive(written(dtype));
  return {{path, ""}, "", place(), 0, 0};
}

std::vector<Member> members() {
  const std::string fixed = ": dropout, branches and batch-norm mode are fixed as they were recorded";
  return {{"scripted", {}, [](const auto& path, const auto& dtype) { return save(Form::scripted, path, dtype); }},
          {"traced",
           {"traced" + fixed},
           [](const auto& path, const auto& dtype) { return save(Form::traced, path, dtype); }},
          {"exported", {"exported" + fixed}, save_exported}};
}

const char* const kConfig = R"({"model_type": "llama", "vocab_size": 32, "hidden_size": 16, "intermediate_size": 24,
    "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2, "rms_norm_eps": 1e-5,
    "hidden_act": "silu"})";

// These models use transformers' operators and differ from the decoder of the other files.
// tests/models/check_transformers.py compares how they train.
ModelSourceAndLoweringOptions config_model(const std::string& path, const std::string& dtype) {
  fs::create_directories(path);
  std::ofstream(path + "/config.json") << kConfig;
  return {{path + "/config.json", ""}, dtype, place(), 0, 0};
}

ModelSourceAndLoweringOptions profile(const std::string&, const std::string& dtype) {
  const std::string text =
      R"({"description": "d", "batch": 2, "sequence": 12, "config": )" + std::string(kConfig) + "}";
  return {{"", text}, dtype, place(), 5, 0};
}

std::vector<Member> all_members() {
  std::vector<Member> all = members();
  const std::string note =
      "weights are random, because there is no model.safetensors beside the config: that changes neither memory nor "
      "time";
  all.push_back({"config", {note}, config_model, "input_ids"});
  all.push_back({"profile", {}, profile, "input_ids"});
  return all;
}

Program lowered(const Member& member, const std::string& dtype = "") {
  const fs::path path = fs::temp_directory_path() / ("memtune-conformance-" + std::to_string(::getpid()) + ".pt");
  Program program = lower(member.make(path, dtype));
  fs::remove_all(path);
  return program;
}

at::Tensor tokens(int64_t batch, int64_t length) {
  return (at::arange(batch * length) * 7).remainder(32).view({batch, length}).to(place());
}

struct Trained {
  at::Tensor loss;
  std::vector<std::pair<std::string, at::Tensor>> gradients;
  int64_t peak_bytes = 0;  // above the allocated bytes before the step
};

template <typename Forward>
Trained train(const Forward& forward) {
  auto& device = tests::test_device();
  device.reset_peak();
  const int64_t before = device.memory().allocated;
  Trained trained;
  at::Tensor loss = forward();
  autograd::backward(loss);
  trained.loss = std::exchange(loss, {}).detach();
  trained.peak_bytes = device.memory().peak_allocated - before;
  return trained;
}

Trained train(const Program& program, const at::Tensor& input) {
  program::Interpreter interpreter(program);
  Trained trained = train([&] { return interpreter.run({input}).toTensor(); });
  for (const auto& [name, parameter] : program.state.parameters) trained.gradients.emplace_back(name, parameter.grad());
  return trained;
}

Trained train(torch::jit::Module module, const at::Tensor& input) {
  Trained trained = train([&] { return module.forward({input}).toTensor(); });
  for (const auto& parameter : module.named_parameters())
    trained.gradients.emplace_back(parameter.name, parameter.value.grad());
  return trained;
}

// Each thread of an op allocates scratch memory at its own time. One thread makes peaks repeatable.
struct OneThread {
  OneThread() { at::set_num_threads(1); }
  ~OneThread() { at::set_num_threads(threads); }
  int threads = at::get_num_threads();
};

std::pair<Trained, Trained> train_both(const Member& member, const std::string& dtype, const at::Tensor& input) {
  const Program program = with_loss(lowered(member, dtype), LossKind::next_token, "tokens");
  Trained ours = train(program, input);
  program::ModelParametersAndBuffers state = program.state;
  state.buffers = written(dtype).state.buffers;
  return {std::move(ours), train(tests::decoder_module(kSizes, state, Form::scripted, /*loss=*/true), input)};
}

void check_peak(const Member& member, const std::string& dtype, const at::Tensor& input) {
  const OneThread one;
  const auto [ours, theirs] = train_both(member, dtype, input);
  CHECK(ours.peak_bytes > 0);
  CHECK(ours.peak_bytes == theirs.peak_bytes);
}

void check_training(const Member& member, const std::string& dtype, const at::Tensor& input) {
  CAPTURE(member.kind);
  CAPTURE(dtype);
  check_peak(member, dtype, input);
  const auto [ours, theirs] = train_both(member, dtype, input);
  CHECK(at::equal(ours.loss, theirs.loss));
  REQUIRE(ours.gradients.size() == theirs.gradients.size());
  for (size_t i = 0; i < ours.gradients.size(); ++i) {
    CAPTURE(ours.gradients[i].first);
    CHECK(ours.gradients[i].first == theirs.gradients[i].first);
    REQUIRE(ours.gradients[i].second.defined());
    CHECK(at::equal(ours.gradients[i].second, theirs.gradients[i].second));
  }
}

TEST_CASE("a training step has the loss and gradients and peak memory of TorchScript's executor") {
  for (const Member& member : members()) {
    check_training(member, "", tokens(2, 12));
    check_training(member, "", tokens(3, 7));
    check_training(member, "bfloat16", tokens(2, 12));
  }
}

// The ops that plans refer to: those that make or change tensors, in order, with region and class.
std::vector<std::string> tensor_ops(const plan::ProgramFacts& facts) {
  std::vector<std::string> ops;
  for (const auto& op : facts.ops)
    if (op.op_class != plan::OpClass::host)
      ops.push_back(plan::full_name(op) + " " + plan::to_string(op.op_class) + " " + std::to_string(op.block));
  return ops;
}

plan::ProgramFacts facts_of(const Member& member) {
  const Program program = with_loss(lowered(member), LossKind::next_token, member.tokens);
  return program::facts(program, program::find_blocks(program, ""));
}

TEST_CASE("every form gives the same blocks and the same names and regions and classes of ops") {
  const auto expected = tensor_ops(facts_of(members()[0]));
  REQUIRE(expected.size() > 60);
  for (const Member& member : members()) {
    CAPTURE(member.kind);
    const auto facts = facts_of(member);
    CHECK(facts.kind == member.kind);
    REQUIRE(facts.blocks.size() == 3);
    CHECK(facts.blocks[2].region == "layers.2");
    CHECK(tensor_ops(facts) == expected);
    CHECK(facts.parameters == 32 * 16 * 2 + 16 + 3 * (2 * 16 * 16 + 2 * 8 * 16 + 2 * 16 + 3 * 16 * 24));
  }
}

TEST_CASE("notes report what the form fixes and no op is unknown") {
  for (const Member& member : all_members()) {
    CAPTURE(member.kind);
    CHECK(facts_of(member).notes == member.notes);
  }
}

TEST_CASE("an op's source is a file name with a line or empty") {
  const std::regex form("([^/:]+:[0-9]+)?");
  for (const Member& member : all_members())
    for (const auto& op : facts_of(member).ops) {
      CAPTURE(member.kind);
      CAPTURE(op.source);
      CHECK(std::regex_match(op.source, form));
    }
}

TEST_CASE("the model's inputs are its tokens and a separate target comes last") {
  for (const Member& member : all_members()) {
    CAPTURE(member.kind);
    const Program model = lowered(member);
    CHECK(program::input_names(model) == std::vector<std::string>{member.tokens});
    const Program trained = with_loss(model, LossKind::next_token, "labels");
    CHECK(program::input_names(trained) == std::vector<std::string>{member.tokens, "labels"});
    CHECK_FALSE(trained.inputs[1].of_model);
    CHECK(program::input_names(model).size() == 1);
    const at::Tensor input = tokens(2, 12);
    const at::Tensor apart = program::Interpreter(trained).run({input, input}).toTensor();
    const Program tied = with_loss(model, LossKind::next_token, member.tokens);
    CHECK(at::equal(program::Interpreter(tied).run({input}).toTensor(), apart));
    const Program plain = with_loss(model, LossKind::none, "");
    CHECK(program::Interpreter(plain).run({input}).toTensor().sizes() == at::IntArrayRef({2, 12, 32}));
  }
}

TEST_CASE("each source is claimed by one front end") {
  for (const Member& member : all_members()) {
    const fs::path path = fs::temp_directory_path() / ("memtune-claims-" + std::to_string(::getpid()) + ".pt");
    const DetectedModelSource found = probe(member.make(path, "").model);
    fs::remove_all(path);
    int claims = 0;
    for (const auto& front_end : front_ends()) claims += front_end->claims(found);
    CHECK(claims == 1);
  }
}

}  // namespace
}  // namespace memtune::frontend::conformance_test
