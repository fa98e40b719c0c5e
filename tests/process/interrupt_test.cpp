// A signal during a sweep asks for a clean end, and is never lost.
#include "core/measure/process/interrupt.h"

#include <doctest/doctest.h>

namespace memtune::tests::interrupt_test {
namespace {

using process::InterruptScope;

volatile std::sig_atomic_t outside = 0;
void note(int signal) { outside = signal; }

// What a process outside of scopes does with SIGTERM.
struct Handler {
  Handler() { outside = 0; }
  ~Handler() { std::signal(SIGTERM, before); }
  void (*before)(int) = std::signal(SIGTERM, note);
};

}  // namespace

TEST_CASE("a signal within a scope is noticed there and not outside") {
  const Handler handler;
  {
    const InterruptScope scope;
    CHECK_FALSE(process::interrupted());
    std::raise(SIGTERM);
    CHECK(process::interrupted());
  }
  CHECK(outside == 0);
  CHECK_FALSE(process::interrupted());
}

TEST_CASE("a signal after the last question is raised again when the scope ends") {
  const Handler handler;
  {
    const InterruptScope scope;
    CHECK_FALSE(process::interrupted());
    std::raise(SIGTERM);
    CHECK(outside == 0);
  }
  CHECK(outside == SIGTERM);
}

TEST_CASE("a signal in a nested scope is still there in the outer one") {
  const Handler handler;
  const InterruptScope outer;
  {
    const InterruptScope inner;
    std::raise(SIGTERM);
  }
  CHECK(process::interrupted());
  CHECK(outside == 0);
}

}  // namespace memtune::tests::interrupt_test
