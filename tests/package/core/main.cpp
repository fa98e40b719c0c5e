// What needs no LibTorch, from an installed memtune: strategies, and the events of a trace.
#include <cstdio>
#include <filesystem>

#include "core/base/error.h"
#include "core/plan/strategy/strategy.h"
#include "core/record/trace/file.h"

int main(int, char** arguments) {
  const std::filesystem::path run = arguments[1];
  const auto read = memtune::trace::read_trace(run / "trials/6-dear-13/trace.mttrace");
  std::printf("%s: %zu events of %zu values\n", read.trace.strategy.c_str(), read.trace.events.size(),
              read.trace.values.size());
  if (read.cut() || read.trace.events.empty()) return 1;
  memtune::plan::Strategy::parse("checkpoint:cheap+offload:stream,fraction=0.4");
  try {
    memtune::plan::Strategy::parse("offload:steam");
  } catch (const memtune::UsageError& error) {
    std::puts(error.what());
    return 0;
  }
  return 1;
}
