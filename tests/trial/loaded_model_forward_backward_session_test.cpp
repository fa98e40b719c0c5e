// A note must report each guess with the flag that replaces it. Given inputs and outputs need no note.
#include "core/measure/trial/loaded_model_forward_backward_session.h"

#include <ATen/ATen.h>
#include <doctest/doctest.h>
#include <torch/csrc/jit/api/module.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "core/base/error.h"
namespace memtune::tests::model_session_test {
namespace {

namespace fs = std::filesystem;

using Texts = std::vector<std::string>;

Texts notes(const std::string& answer, const plan::TrialRequest& asked) {
  const fs::path path = fs::temp_directory_path() / ("memtune-session-" + std::to_string(getpid()) + ".pt");
  torch::jit::Module module("Model");
  module.register_parameter("weight", at::ones({3, 3}).requires_grad_(), false);
  module.define("def forward(self, x):\n    y = torch.linear(x, self.weight)\n    return " + answer + "\n");
  module.save(path);
  plan::TrialRequest request = asked;
  request.model.path = path;
  request.training.loss = "mse";
  request.training.device = "cpu";
  trial::LoadedModelForwardBackwardSession session(request);
  session.survey();
  fs::remove(path);
  return session.facts().notes;
}

int count(const Texts& notes, const std::string& part) {
  return static_cast<int>(std::count_if(notes.begin(), notes.end(),
                                        [&](const std::string& note) { return note.find(part) != std::string::npos; }));
}

TEST_CASE("guessed inputs and a guessed model output are noted once and given ones are not") {
  const Texts guessed = notes("{'aux': y, 'out': y * 2}", {});
  CHECK(count(guessed, "x:float32[8,3] is a guess, because the file does not define it; set it with --input") == 1);
  CHECK(count(guessed, "that the loss takes 'out' of it is a guess: select the part with --output") == 1);
  CHECK(count(notes("(y, y * 2)", {}), "that the loss takes part 0 of it is a guess") == 1);
  CHECK(count(notes("[y, y * 2]", {}), "that the loss takes '0' of it is a guess") == 1);

  plan::TrialRequest said;
  said.model.inputs = {plan::parse_input_spec("x:float32[2,3]")};
  said.training.output = "aux";
  CHECK(count(notes("{'aux': y, 'out': y * 2}", said), "guess") == 0);
  said.training.output = "";
  CHECK(count(notes("(y, y.mean())", said), "guess") == 0);
}

TEST_CASE("a constant that overflows the model's dtype is reported as a rejected input with the op") {
  const std::string answer = "torch.masked_fill(y.to(dtype=15), y > 0, -3.4028234663852886e+38)";  // 15: bfloat16
  plan::TrialRequest with_target;
  with_target.model.inputs = {plan::parse_input_spec("x:float32[2,3]"), plan::parse_input_spec("target:float32[2,3]")};
  for (const plan::TrialRequest& asked : {plan::TrialRequest(), with_target}) {
    std::string said;
    try {
      notes(answer, asked);
    } catch (const UsageError& error) {
      said = error.what();
    }
    CHECK(said.starts_with("the model rejects x:float32"));
    CHECK(said.find("without overflow (aten::masked_fill") != std::string::npos);
  }
}

}  // namespace
}  // namespace memtune::tests::model_session_test
