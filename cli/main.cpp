// The only place that turns errors into a line on stderr and an exit code.
#include <fcntl.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "cli/app.h"
#include "core/base/error.h"
#include "core/base/utf8.h"

namespace {

int fail(const std::exception& error, int code) {
  std::fprintf(stderr, "memtune: %s\n", memtune::printable(error.what()).c_str());
  return code;
}

// What is opened next would take the number of one that is closed, and what is printed would end up there.
void open_missing_streams() {
  for (int file = STDIN_FILENO; file <= STDERR_FILENO; ++file)
    if (::fcntl(file, F_GETFD) < 0) ::open("/dev/null", O_RDWR);
}

}  // namespace

int main(int argc, char** argv) try {
  open_missing_streams();
  std::signal(SIGXFSZ, SIG_IGN);  // a write that would exceed the limit then fails with a reason
  return memtune::cli::run({argv + 1, argv + argc});
} catch (const memtune::UsageError& error) {
  return fail(error, memtune::cli::kUsage);
} catch (const std::exception& error) {
  return fail(error, memtune::cli::kFailed);
}
