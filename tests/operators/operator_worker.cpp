// Trains models that write_operators.py made, one step each: as TorchScript, as memtune without a plan, and under every
// strategy. A line of stdin is a case, "PATH" or "PATH autocast"; a line of stdout is what became of it, JSON:
//
//   {"verdicts": {"torchscript": "", "none": "", "checkpoint:full": "other bits in layers.0.t0"}, "reruns": 12,
//    "moved": 4096}
//
// "torchscript" and "none" are compared with Python's loss and gradients, strategies with `none`, bit for bit, and so
// are the buffers that a step leaves. Whoever crashes, or hangs for a minute, says nothing: check_operators.py sees by
// which case.
#include <torch/csrc/jit/runtime/graph_executor.h>
#include <torch/csrc/jit/serialization/import.h>
#include <torch/csrc/jit/serialization/pickle.h>
#include <unistd.h>

#include <cstring>
#include <iostream>
#include <nlohmann/json.hpp>

#include "core/model/frontend/front_end.h"
#include "core/model/ops/autocast.h"
#include "core/model/program/first_line.h"
#include "tests/support/training.h"

namespace memtune::tests {
namespace {

constexpr unsigned kMaxSeconds = 60;
constexpr int kRepetitions = 4;  // of `none`, where it does not repeat itself
constexpr double kAllowed = 2;   // times what they differ by

const std::vector<std::string> kStrategies = {"checkpoint:full", "checkpoint:full,segment=2",
                                              "checkpoint:cheap+offload:stream", "offload:stream"};

using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;  // gradients: undefined where none arrived

struct Answer {
  at::Tensor loss;
  NamedTensors gradients;
  NamedTensors buffers;  // after the step
};

// Autograd makes zeros without memory, conjugates by a flag.
at::Tensor plain(const at::Tensor& tensor) {
  if (!tensor.defined()) return {};
  at::Tensor dense = tensor.detach();
  if (dense.layout() != at::kStrided) dense = dense.to_dense();
  if (dense._is_zerotensor()) dense = at::zeros(dense.sizes(), dense.options());
  return dense.resolve_conj().resolve_neg().clone(at::MemoryFormat::Contiguous);
}

bool same_bits(const at::Tensor& a, const at::Tensor& b) {
  if (a.defined() != b.defined()) return false;
  if (!a.defined()) return true;
  return a.scalar_type() == b.scalar_type() && a.sizes() == b.sizes() &&
         (a.numel() == 0 || std::memcmp(a.const_data_ptr(), b.const_data_ptr(), a.nbytes()) == 0);
}

double difference(const at::Tensor& a, const at::Tensor& b) {
  if (!a.defined() || !b.defined() || a.sizes() != b.sizes()) return std::numeric_limits<double>::infinity();
  if (a.numel() == 0) return 0;
  return (a - b).abs().max().to(at::kDouble).item<double>();
}

class Case {
 public:
  Case(const std::string& path, bool autocast) : device_(device::torch_device(test_device())), autocast_(autocast) {
    torch::jit::ExtraFilesMap files = {{"answer", ""}};
    module_ = torch::jit::load(path, c10::Device(c10::kCPU), files);
    module_.train();
    const std::string& answer = files.at("answer");
    expected_ = torch::jit::pickle_load(std::vector<char>(answer.begin(), answer.end())).toGenericDict();
    plan::ModelAndInputSource source;
    source.path = path;
    program_ = frontend::with_loss(frontend::lower({source, "", device_}), frontend::LossKind::returned, "");
    facts_ = program::facts(program_, program::find_blocks(program_, "layers.*"));
    survey();
  }

  nlohmann::json verdicts() {
    nlohmann::json result = {{"torchscript", against_python([&] { return torchscript(); })}};
    std::optional<Answer> none;
    result["none"] = against_python([&] {
      none = interpreted(nullptr);
      return *none;
    });
    if (!none) return result;
    for (const std::string& strategy : kStrategies) result[strategy] = against(*none, strategy);
    return result;
  }

  int64_t reruns = 0, moved = 0;

 private:
  ops::AutocastState autocast() const { return {autocast_, at::kBFloat16}; }

  void survey() {
    const program::BufferAndRngStateGuard restore(program_.state, device_);
    step::ForwardOpAllocationAndFlopsProfiler survey(program_, facts_, device_.type());
    const ops::AutocastScope autocast(device_.type(), this->autocast());
    const autograd::SavedTensorHooksScope hooks(&survey);
    program::Interpreter(program_).run({at::ones({4})}, &survey);
  }

  static Answer take(const at::Tensor& loss, const program::NamedTensors& parameters,
                     const torch::jit::Module& module) {
    Answer answer{plain(loss), {}, {}};
    for (const auto& buffer : module.named_buffers()) answer.buffers.emplace_back(buffer.name, plain(buffer.value));
    for (const auto& [name, parameter] : parameters) {
      answer.gradients.emplace_back(name, plain(parameter.grad()));
      parameter.mutable_grad().reset();
    }
    return answer;
  }

  Answer torchscript() {
    program::NamedTensors parameters;
    for (const auto& parameter : module_.named_parameters()) parameters.emplace_back(parameter.name, parameter.value);
    program::ModelParametersAndBuffers state;
    state.object = module_._ivalue();
    state.parameters = parameters;
    const program::BufferAndRngStateGuard restore(state, device_);
    at::manual_seed(0);
    at::Tensor loss;
    {
      const ops::AutocastScope autocast(device_.type(), this->autocast());
      loss = module_.forward({at::ones({4})}).toTensor();
    }
    autograd::backward(loss);
    return take(loss, parameters, module_);
  }

  Answer interpreted(step::ActivationPlanExecutor* executor) {
    const program::BufferAndRngStateGuard restore(program_.state, device_);
    at::manual_seed(0);
    if (executor) executor->begin_step();
    at::Tensor loss;
    {
      const ops::AutocastScope autocast(device_.type(), this->autocast());
      const autograd::SavedTensorHooksScope hooks(executor);
      loss = program::Interpreter(program_).run({at::ones({4})}, executor).toTensor();
    }
    if (executor) executor->end_forward();
    autograd::backward(loss);
    return take(loss, program_.state.parameters, torch::jit::Module(program_.state.object.toObject()));
  }

  Answer under(const std::string& strategy) {
    plan::Plan plan = plan::make_plan(plan::Strategy::parse(strategy), facts_);
    plan.saved_min_bytes = plan.transfer.min_bytes = 0;
    step::ActivationPlanExecutor executor(program_, facts_, plan, test_device());
    Answer answer = interpreted(&executor);
    reruns += executor.reruns();
    moved += executor.offload().counters().out_bytes;
    if (leased_at_rest(executor) != 0) throw Error("host memory is left");
    return answer;
  }

  template <typename Run>
  std::string against_python(Run run) {
    try {
      return far_from_python(run());
    } catch (const std::exception& error) {
      return program::first_line(error);
    }
  }

  std::string far_from_python(const Answer& found) const {
    if (!close(found.loss, expected_.at("loss").toTensor())) return "another loss than Python's";
    for (const auto& [name, gradient] : found.gradients) {
      const c10::IValue key("gradient " + name);
      const at::Tensor expected = expected_.contains(key) ? expected_.at(key).toTensor() : at::Tensor();
      if (!close(gradient, expected)) return "another gradient than Python's of " + name;
    }
    return "";
  }

  // Of a gradient that only one side has, the other's is zeros.
  bool close(at::Tensor a, at::Tensor b) const {
    if (!a.defined() && !b.defined()) return true;
    if (!a.defined()) a = at::zeros_like(b);
    if (!b.defined()) b = at::zeros_like(a);
    if (a.sizes() != b.sizes() || a.scalar_type() != b.scalar_type()) return false;
    if (a.numel() == 0) return true;
    const bool narrow = autocast_ || a.scalar_type() == at::kBFloat16;
    const double size = std::max(1.0, b.abs().max().to(at::kDouble).item<double>());
    return at::allclose(a, b, narrow ? 2e-2 : 1e-4, (narrow ? 2e-2 : 1e-5) * size, /*equal_nan=*/true);
  }

  // "": the same bits, or within what `none` differs from itself.
  std::string against(const Answer& none, const std::string& strategy) {
    try {
      const Answer found = under(strategy);
      for (size_t i = 0; i < found.buffers.size(); ++i)
        if (!same_bits(found.buffers[i].second, none.buffers[i].second)) return "moves " + found.buffers[i].first;
      std::string where = same_bits(found.loss, none.loss) ? "" : "loss";
      for (size_t i = 0; i < found.gradients.size() && where.empty(); ++i)
        if (!same_bits(found.gradients[i].second, none.gradients[i].second)) where = found.gradients[i].first;
      if (where.empty() || is_noise(found, none)) return "";
      return "other bits in " + where;
    } catch (const std::exception& error) {
      for (const auto& [name, parameter] : program_.state.parameters) parameter.mutable_grad().reset();
      return program::first_line(error);
    }
  }

  bool is_noise(const Answer& found, const Answer& none) {
    double loss_noise = 0;
    std::vector<double> noise(none.gradients.size(), 0);
    for (int i = 0; i < kRepetitions; ++i) {
      const Answer again = interpreted(nullptr);
      loss_noise = std::max(loss_noise, differs(again.loss, none.loss));
      for (size_t k = 0; k < noise.size(); ++k)
        noise[k] = std::max(noise[k], differs(again.gradients[k].second, none.gradients[k].second));
    }
    bool within = differs(found.loss, none.loss) <= kAllowed * loss_noise;
    for (size_t k = 0; k < noise.size(); ++k)
      within = within && differs(found.gradients[k].second, none.gradients[k].second) <= kAllowed * noise[k];
    return within;
  }

  static double differs(const at::Tensor& a, const at::Tensor& b) { return same_bits(a, b) ? 0 : difference(a, b); }

  c10::Device device_;
  bool autocast_;
  torch::jit::Module module_;
  c10::impl::GenericDict expected_{c10::StringType::get(), c10::TensorType::get()};
  program::Program program_;
  plan::ProgramFacts facts_;
};

nlohmann::json try_case(const std::string& line) {
  const size_t end = line.rfind(" autocast");
  try {
    Case one(line.substr(0, end), end != std::string::npos);
    nlohmann::json verdicts = one.verdicts();
    return {{"verdicts", verdicts}, {"reruns", one.reruns}, {"moved", one.moved}};
  } catch (const std::exception& error) {
    return {{"verdicts", {{"none", program::first_line(error)}}}, {"reruns", 0}, {"moved", 0}};
  }
}

}  // namespace
}  // namespace memtune::tests

int main() {
  memtune::autograd::install_engine();
  torch::jit::getProfilingMode() = false;
  torch::jit::setGraphExecutorOptimize(false);  // its own differentiation is wrong for products of complex numbers
  for (std::string line; std::getline(std::cin, line);) {
    alarm(memtune::tests::kMaxSeconds);
    std::cout << memtune::tests::try_case(line).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)
              << std::endl;
  }
}
