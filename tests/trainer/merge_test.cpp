// Keys go into a person's configuration without touching what else it says.
#include "core/trainer/merge.h"

#include <doctest/doctest.h>

#include <string>

#include "core/base/error.h"

using memtune::UsageError;
using memtune::trainer::merge;

namespace {

constexpr char kKeys[] =
    "# memtune 0.1.0: checkpoint:full in keys of axolotl\n# measured:  step 1 ms\ngradient_checkpointing: true\n"
    "gradient_checkpointing_kwargs:\n  use_reentrant: false\nactivation_offloading: false\n";

}  // namespace

TEST_CASE("keys that are there are replaced with all of their values, others come at the end, the rest stays") {
  CHECK(
      merge("base_model: org/name  # of the hub\n\n# memory\ngradient_checkpointing: unsloth\n"
            "gradient_checkpointing_kwargs:\n  use_reentrant: true\n  # by hand\n  other: 1\ndatasets:\n- path: a\n"
            "  type: b\nlora_target_modules: [\n  q, k\n]\n# the end\n",
            kKeys, "x.yaml") ==
      "base_model: org/name  # of the hub\n\n# memory\n# memtune 0.1.0: checkpoint:full in keys of axolotl\n"
      "# measured:  step 1 ms\ngradient_checkpointing: true\ngradient_checkpointing_kwargs:\n  use_reentrant: false\n"
      "datasets:\n- path: a\n  type: b\nlora_target_modules: [\n  q, k\n]\n# the end\nactivation_offloading: false\n");
}

TEST_CASE("merging again changes nothing") {
  const std::string once = merge("---\nseed: 1\nactivation_offloading: legacy\n", kKeys, "x.yaml");
  CHECK(once ==
        "---\nseed: 1\n# memtune 0.1.0: checkpoint:full in keys of axolotl\n# measured:  step 1 ms\n"
        "activation_offloading: false\ngradient_checkpointing: true\ngradient_checkpointing_kwargs:\n"
        "  use_reentrant: false\n");
  CHECK(merge(once, kKeys, "x.yaml") == once);
}

TEST_CASE("an empty configuration becomes the keys, one without a last line feed gets one") {
  CHECK(merge("", kKeys, "x.yaml") == kKeys);
  CHECK(merge("seed: 1", "a: 2\n", "x.yaml") == "seed: 1\na: 2\n");
}

TEST_CASE("text of several lines is no key, whatever stands in it") {
  CHECK(merge("prompt: |\n  a: 1\n# not the end\n  a: 3\nz: 1\n", "a: 2\n", "x.yaml") ==
        "prompt: |\n  a: 1\n# not the end\n  a: 3\nz: 1\na: 2\n");
  CHECK(merge("'a': 1\nurl: http://x\n", "a: 2\n", "x.yaml") == "a: 2\nurl: http://x\n");
}

TEST_CASE("what cannot be merged into is refused, and named") {
  for (const char* config : {"{a: 1}\n", "- a\n", "just words\n", "a: 1\n---\na: 2\n", "a: 1\n...\n"})
    CHECK_THROWS_AS(merge(config, "b: 2\n", "x.yaml"), UsageError);
  CHECK_THROWS_WITH_AS(merge("a: 1\na: 2\n", "a: 3\n", "x.yaml"), "--into: x.yaml has the key a twice", UsageError);
  CHECK_THROWS_WITH_AS(merge("a: 1\nwords\n", "a: 3\n", "x.yaml"),
                       "--into: x.yaml cannot be merged into: 'words' is no key at the top of a document", UsageError);
}
