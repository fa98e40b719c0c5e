// Runs memtune like a user: arguments in; exit code, stdout and stderr out. memtune-fake-trial runs its trials.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>

namespace memtune::test {

inline std::string slurp(const std::filesystem::path& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

inline size_t count_lines(const std::string& text) {
  return static_cast<size_t>(std::count(text.begin(), text.end(), '\n'));
}

// Path of a program of the same build, in the same folder.
inline std::string program(const std::string& name) {
  return (std::filesystem::read_symlink("/proc/self/exe").parent_path() / name).string();
}
inline std::string fake_trial() { return program("memtune-fake-trial"); }

// A temporary folder, deleted by the destructor.
class ScratchFolder {
 public:
  ScratchFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "memtune-test-XXXXXX").string();
    path = mkdtemp(name.data());
  }
  ~ScratchFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  std::filesystem::path path;
};

// Number of files, folders or open descriptors in `folder`.
inline size_t entries(const std::filesystem::path& folder) {
  return static_cast<size_t>(
      std::distance(std::filesystem::directory_iterator(folder), std::filesystem::directory_iterator()));
}

// Sets an environment variable until destruction.
class Variable {
 public:
  Variable(const char* name, const std::string& value) : name_(name) { setenv(name, value.c_str(), 1); }
  ~Variable() { unsetenv(name_); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
};

struct Ended {
  int code = 0;
  std::string out, err;
};

// A folder to run memtune in. `behaviour` is the text of FAKE_TRIAL.
struct Workspace {
  ScratchFolder folder;
  Variable trial{"MEMTUNE_TRIAL", fake_trial()};
  Variable log{"FAKE_TRIAL_LOG", (folder.path / "starts").string()};

  std::string shell_line(const std::string& arguments) const {
    const std::string at = "cd '" + folder.path.string() + "' && ";
    return at + "exec '" + program("memtune") + "' " + arguments + " >out 2>err </dev/null";
  }

  // `arguments` as typed into a shell.
  Ended memtune(const std::string& arguments, const std::string& behaviour = "") const {
    const Variable rules("FAKE_TRIAL", behaviour);
    const int status = std::system(shell_line(arguments).c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), slurp(folder.path / "out"),
            slurp(folder.path / "err")};
  }

  // One line per start of the fake trial so far.
  std::string starts() const { return slurp(folder.path / "starts"); }
};

}  // namespace memtune::test
