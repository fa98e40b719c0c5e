// The only place that turns errors into a line on stderr and an exit code.
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "cli/app.h"
#include "core/base/error.h"

namespace {

int fail(const std::exception& error, int code) {
  std::fprintf(stderr, "memtune: %s\n", error.what());
  return code;
}

}  // namespace

int main(int argc, char** argv) try {
  return memtune::cli::run({argv + 1, argv + argc});
} catch (const memtune::UsageError& error) {
  return fail(error, memtune::cli::kUsage);
} catch (const std::exception& error) {
  return fail(error, memtune::cli::kFailed);
}
