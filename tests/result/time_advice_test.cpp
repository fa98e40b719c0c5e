// Each rule speaks from its bound on, and not below it.
#include "core/answer/result/time_advice.h"

#include <doctest/doctest.h>

namespace memtune::time_advice_test {

using namespace memtune::result;

TEST_CASE("a step without a remarkable share gets no advice") {
  TimeShares shares{0.09, 0.3, 0.41, 0.19};
  CHECK(time_advice(shares).empty());
}

TEST_CASE("each remarkable share is named with its setting") {
  TimeShares shares{0.41, 0, 0, 0.2, 0.2, 0.3, 0.1};
  shares.loader_workers = 2;
  CHECK(time_advice(shares) ==
        std::vector<std::string>{"waiting for data takes 41 % of a step: DataLoader(num_workers=6) (2 now)",
                                 "running the model without gradients (evaluation) takes 20 % of a step: evaluate less "
                                 "often",
                                 "generation takes 30 % of a step: a larger batch in generate, or vLLM",
                                 "saving takes 10 % of a step: save less often",
                                 "the optimizer takes 20 % of a step: fused=True if it is not set"});
}

}  // namespace memtune::time_advice_test
