// A training step under a plan, from an installed memtune: the built-in tiny decoder learns with checkpointed blocks as
// it does without, to the bit, in less memory.
#include <cstdio>
#include <string>
#include <vector>

#include "core/base/embedded_json_preset.h"
#include "core/engine/autograd/hooks.h"
#include "core/engine/optimizer/optimizer.h"
#include "core/measure/trial/loaded_model_forward_backward_session.h"
#include "core/plan/rules/strategy.h"

using namespace memtune;

struct Run {
  double first_loss = 0, last_loss = 0;
  std::vector<at::Tensor> gradients;  // of the first step
  int64_t peak_bytes = 0;
};

Run train(const std::string& strategy) {
  plan::TrialRequest request;
  request.model.profile = find_profile("models", "tiny").json;
  request.model.inputs = {plan::parse_input_spec("input_ids:int64[8,64]<256")};
  request.training.loss = "causal_lm";
  trial::LoadedModelForwardBackwardSession session(request);
  session.survey();  // the bytes of values, by which strategies decide
  const plan::Plan plan = plan::make_plan(plan::Strategy::parse(strategy), session.facts());
  step::ActivationPlanExecutor executor(session.program(), session.facts(), plan, session.device());

  std::vector<at::Tensor> parameters;
  for (const auto& [name, tensor] : session.parameters()) parameters.push_back(tensor);
  const auto optimizer = optimizer::make_optimizer({"adamw", 1e-2}, parameters);
  Run run;
  session.device().reset_peak();
  for (int step = 0; step < 8; ++step) {
    run.last_loss = session.forward_backward(&executor, &executor).item<double>();
    if (step == 0) {
      run.first_loss = run.last_loss;
      for (const at::Tensor& parameter : parameters) run.gradients.push_back(parameter.grad().clone());
    }
    optimizer->step();
  }
  run.peak_bytes = session.device().memory().peak_allocated;
  std::printf("%-16s loss %.4f to %.4f, peak %lld KiB\n", strategy.c_str(), run.first_loss, run.last_loss,
              static_cast<long long>(run.peak_bytes >> 10));
  return run;
}

int main() {
  autograd::install_engine();  // before anything else touches autograd
  const Run none = train("none"), plan = train("checkpoint:full");
  for (size_t i = 0; i < none.gradients.size(); ++i)
    if (!at::equal(none.gradients[i], plan.gradients[i])) return 1;
  return plan.last_loss < plan.first_loss && plan.peak_bytes < none.peak_bytes ? 0 : 1;
}
