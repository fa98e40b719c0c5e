// Attention over the lengths of packed documents: the kernel is CUDA's alone, so that what it computes, and that every
// engine keeps it, shows itself here. A mask of the documents, which sdpa takes, is what it is compared with.
#include "tests/support/packed_training.h"

namespace memtune::tests {

TEST_CASE("flash-varlen computes what sdpa does under a mask of the documents, within bfloat16, windows too") {
  for (const char* window : {"null", "32"})
    for (const char* dtype : {"bfloat16", "float16"}) {
      CAPTURE(window);
      CAPTURE(dtype);
      const PackedPlace place("cuda", window);
      const Trained flash = train(place.request("flash-varlen", dtype)), sdpa = train(place.request("sdpa", dtype));
      check_near(flash, sdpa, train(place.request("sdpa", "float32")));
    }
}

TEST_CASE("the window is part of it") { check_window_counts("cuda"); }

TEST_CASE("under autocast queries, keys and values are cast for it") { check_autocast_casts("cuda"); }

TEST_CASE("flash-varlen has the same bits whether its values are kept, made again or moved") {
  check_equal_under_strategies("cuda");
}

}  // namespace memtune::tests
