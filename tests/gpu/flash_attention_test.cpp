// Attention over packed documents with the kernel that only CUDA has. The tests check its results, and that every
// engine keeps them. The reference is sdpa with a mask of the documents.
#include "tests/support/packed_training.h"

namespace memtune::tests {

TEST_CASE("flash-varlen with and without a window equals sdpa under a mask of the documents on a GPU") {
  for (const char* window : {"null", "32"})
    for (const char* dtype : {"bfloat16", "float16"}) {
      CAPTURE(window);
      CAPTURE(dtype);
      const PackedPlace place("cuda", window);
      const Trained flash = train(place.request("flash-varlen", dtype)), sdpa = train(place.request("sdpa", dtype));
      check_near(flash, sdpa, train(place.request("sdpa", "float32")));
    }
}

TEST_CASE("a window masks earlier tokens on a GPU") { check_window_counts("cuda"); }

TEST_CASE("autocast casts queries and keys and values for flash-varlen on a GPU") { check_autocast_casts("cuda"); }

TEST_CASE("flash-varlen gives the same bits with activations kept or recomputed or offloaded on a GPU") {
  check_equal_under_strategies("cuda");
}

}  // namespace memtune::tests
