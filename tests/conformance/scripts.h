// Scripts of models and their check. Loss and gradients must have the bits of plain autograd under every strategy, and
// nothing may be held afterwards.
#pragma once

#include <doctest/doctest.h>

#include <span>
#include <string>

#include "core/model/program/first_line.h"
#include "tests/support/training.h"

namespace memtune::tests {

// x: [4, 8]. a and b are parameters [8, 8]; mean and variance are buffers [8].
struct Script {
  const char* name;
  const char* source;
};

// Returns "" if the step equals plain autograd and leaves nothing behind. Each call builds its own model: a write into
// the input is legal only if nothing has saved the input before.
inline std::string failure(const Script& script, const std::string& strategy, const Step& plain) {
  try {
    const Step step = Model(script.source, 4).under(strategy);
    if (step.leased_after != 0) return "host memory is left";
    return same(step, plain) ? "" : "other bits";
  } catch (const std::exception& error) {
    return program::first_line(error);
  }
}

inline void check_under_every_strategy(std::span<const Script> scripts) {
  for (const Script& script : scripts) {
    CAPTURE(std::string(script.name));
    const Step plain = Model(script.source, 4).plain();
    REQUIRE(plain.loss.isfinite().item<bool>());
    for (const auto& strategy : all_strategies()) CHECK_MESSAGE(failure(script, strategy, plain) == "", strategy);
  }
}

}  // namespace memtune::tests
