// Attention over the lengths of packed documents: the kernel is CUDA's alone, so that what it computes, and that every
// engine keeps it, shows itself here. A mask of the documents, which sdpa takes, is what it is compared with.
#include <algorithm>

#include "tests/support/packed_training.h"

namespace memtune::tests {

TEST_CASE("flash-varlen computes what sdpa does under a mask of the documents, within bfloat16, windows too") {
  for (const char* window : {"null", "32"})
    for (const char* dtype : {"bfloat16", "float16"}) {
      CAPTURE(window);
      CAPTURE(dtype);
      const PackedPlace place("cuda", window);
      const Trained flash = train(place.request("flash-varlen", dtype)), sdpa = train(place.request("sdpa", dtype));
      const Trained eager = train(place.request("eager", dtype));
      MESSAGE("gradients apart: flash-varlen and sdpa " << most_apart(flash, sdpa) << ", eager and sdpa "
                                                        << most_apart(eager, sdpa));
      CHECK(apart(flash.loss, sdpa.loss) < 2e-3);
      CHECK(most_apart(flash, sdpa) < std::max(0.03, 2 * most_apart(eager, sdpa)));
    }
}

TEST_CASE("the window is part of it") {
  const PackedPlace whole("cuda", "null"), windowed("cuda", "32");
  const Trained all = train(whole.request("flash-varlen", "bfloat16"));
  CHECK(most_apart(train(windowed.request("flash-varlen", "bfloat16")), all) > 0.1);
}

TEST_CASE("under autocast queries, keys and values are cast for it") {
  const PackedPlace place("cuda", "null");
  config::TrialRequest flash = place.request("flash-varlen", "float32"), sdpa = place.request("sdpa", "float32");
  flash.training.autocast = sdpa.training.autocast = "bfloat16";
  const Trained found = train(flash), expected = train(sdpa);
  CHECK(apart(found.loss, expected.loss) < 2e-3);
  CHECK(most_apart(found, expected) < 0.05);
}

TEST_CASE("flash-varlen has the same bits whether its values are kept, made again or moved") {
  const PackedPlace place("cuda", "32");
  const config::TrialRequest none = place.request("flash-varlen", "bfloat16");
  const Trained kept = train(none);
  check_equal(train(none), kept);
  for (const char* strategy : {"checkpoint:full", "checkpoint:cheap", "checkpoint:op", "offload:stream", "offload:sync",
                               "checkpoint:full,inputs=host"}) {
    CAPTURE(strategy);
    check_equal(train(planned(none, strategy)), kept);
  }
}

}  // namespace memtune::tests
