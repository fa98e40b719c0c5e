#include "cli/console.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/layout.h"
#include "core/base/utf8.h"

namespace memtune::cli {
namespace {

constexpr int kUsualWidth = 100;

bool is_set(const char* variable) {
  const char* value = std::getenv(variable);
  return value && *value;
}

bool dumb_terminal() {
  const char* terminal = std::getenv("TERM");
  return terminal && std::string_view(terminal) == "dumb";
}

}  // namespace

int terminal_width(int descriptor) {
  winsize size{};
  if (!isatty(descriptor)) return 0;
  return ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : kUsualWidth;
}

report::TerminalCapabilities table_style(const ConsoleFlags& flags) {
  const int width = terminal_width(STDOUT_FILENO);
  const bool color = width > 0 && !flags.no_color && !is_set("NO_COLOR") && !dumb_terminal();
  return {color, width > 0 ? width : kUsualWidth};
}

void write_output(const std::string& path, std::string_view text) {
  if (path != "-") return write_file(path, text);
  const bool written = std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0;
  if (!written) throw system_error("cannot write to standard output", errno);
}

void check_output(const std::string& flag, const std::string& path) {
  if (path.empty() || path == "-") return;
  const std::filesystem::path folder = std::filesystem::absolute(path).parent_path();
  if (std::filesystem::is_directory(path)) throw UsageError(flag + ": " + path + " is a folder; name a file to write");
  if (!std::filesystem::is_directory(folder)) throw UsageError(flag + ": no such folder: " + folder.string());
  if (access(folder.c_str(), W_OK) != 0) throw UsageError(flag + ": cannot write into " + folder.string());
}

void check_out(const std::string& path) {
  if (path.empty()) throw UsageError("--out: the folder's name is empty");
  if (std::error_code none; std::filesystem::exists(path, none) && !std::filesystem::is_directory(path, none))
    throw UsageError("--out: " + path + " is no folder; name one, or a new one");
}

void check_outputs(const std::string& flag, const std::string& path, const std::string& other_flag,
                   const std::string& other_path) {
  if (path == "-" && other_path == "-")
    throw UsageError(flag + " - and " + other_flag + " - both want stdout: name a file for one of them");
  check_output(flag, path);
  check_output(other_flag, other_path);
}

std::string hanging(const std::string& lead, int lead_width, const std::string& text, int width) {
  std::string lines = lead;
  for (const std::string& line : wrap(text, std::max(24, width - lead_width)))
    lines += (lines == lead ? "" : std::string(static_cast<size_t>(lead_width), ' ')) + line + "\n";
  return lines;
}

void say(const ConsoleFlags& flags, const std::string& line) {
  if (!flags.quiet) std::fprintf(stderr, "%s\n", printable_line(line).c_str());
}

}  // namespace memtune::cli
