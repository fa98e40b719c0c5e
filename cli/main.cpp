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

// Otherwise a file opened later gets the number of a closed stream, and output would go into it.
void open_missing_streams() {
  for (int file = STDIN_FILENO; file <= STDERR_FILENO; ++file)
    if (::fcntl(file, F_GETFD) < 0) ::open("/dev/null", O_RDWR);
}

}  // namespace

int main(int argc, char** argv) try {
  open_missing_streams();
  std::signal(SIGXFSZ, SIG_IGN);  // a write beyond the file size limit then fails with an error
  return memtune::cli::run({argv + 1, argv + argc});
} catch (const memtune::UsageError& error) {
  return fail(error, memtune::cli::kUsage);
} catch (const std::exception& error) {
  return fail(error, memtune::cli::kFailed);
}
