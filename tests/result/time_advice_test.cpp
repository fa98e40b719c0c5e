// Each rule speaks from its bound on, and not below it.
#include "core/answer/result/time_advice.h"

#include <doctest/doctest.h>

namespace memtune::time_advice_test {

using namespace memtune::result;

namespace {

TrainingPhaseTimeShares shares_of(double data, double update, double evaluation = 0) {
  TrainingPhaseTimeShares shares;
  shares.data = data;
  shares.update = update;
  shares.evaluation = evaluation;
  return shares;
}

}  // namespace

TEST_CASE("a step without a remarkable share gets no advice") {
  TrainingPhaseTimeShares shares = shares_of(0.09, 0.09, 0.19);
  shares.loader_workers = 0;
  shares.unfused = true;
  CHECK(time_advice(shares).empty());
}

TEST_CASE("each remarkable share is named with its setting") {
  TrainingPhaseTimeShares shares = shares_of(0.41, 0.2, 0.2);
  shares.generation = 0.3;
  shares.save = 0.1;
  shares.loader_workers = 2;
  shares.evaluates = shares.unfused = true;
  CHECK(time_advice(shares) ==
        std::vector<std::string>{"waiting for data takes 41 % of a step: num_workers of the DataLoader, 6 instead of 2",
                                 "evaluation takes 20 % of a step: evaluate less often",
                                 "generation takes 30 % of a step: a larger batch in generate, or vLLM",
                                 "saving takes 10 % of a step: save less often",
                                 "the optimizer takes 20 % of a step: fused=True"});
}

TEST_CASE("what is already set, or is no evaluation, is not advised") {
  const TrainingPhaseTimeShares shares = shares_of(0.41, 0.2, 0.2);
  CHECK(time_advice(shares) == std::vector<std::string>{"running models without gradients, for the training itself, "
                                                        "takes 20 % of a step: results that do not change are computed "
                                                        "once and kept"});
}

TEST_CASE("a trainer's settings have its own words") {
  TrainingPhaseTimeShares shares = shares_of(0.41, 0.2);
  shares.loader_workers = 0;
  shares.unfused = true;
  shares.words = {{"workers", "dataloader_num_workers"}, {"fused", "optim: adamw_torch_fused"}};
  CHECK(time_advice(shares) ==
        std::vector<std::string>{"waiting for data takes 41 % of a step: dataloader_num_workers, 4 instead of 0",
                                 "the optimizer takes 20 % of a step: optim: adamw_torch_fused"});
}

}  // namespace memtune::time_advice_test
