// Why: a plain open() of a pipe blocks for ever, and reading a device never ends. core/base opens files without
// blocking; any other way to open a file needs a reason.
#include <doctest/doctest.h>

#include <map>
#include <regex>
#include <sstream>

#include "tests/structure/sources.h"
namespace memtune::tests::opened_files_test {
namespace {

// Sources that open files without core/base, each with its reason.
const std::map<std::string, std::string> kAllowed = {
    {"core/base/file_system.cpp", "the seam: the system's own calls"},
    {"core/base/open_file.cpp", "opens without waiting"},
    {"core/base/device/cuda_module.cpp", "memtune's own module, beside the program"},
    {"core/engine/disk/scratch_file.cpp", "makes a file of its own, with O_EXCL or O_TMPFILE"},
    {"core/model/frontend/library.cpp", "dlopen takes a path; require_file() looked at it"},
    {"core/model/frontend/torchscript/module_file.cpp", "LibTorch takes a path; require_file() looked at it"},
    {"core/engine/state/rank_parts.cpp", "through ConfinedFileSystem, which opens without waiting"},
    {"core/engine/state/saved_states_folder.cpp", "through ConfinedFileSystem, which opens without waiting"},
    {"core/measure/trial/reference.cpp", "writes a file whose name was removed before"},
    {"core/measure/trial/reference.h", "writes a file whose name was removed before"},
    {"core/measure/trial/sandbox.cpp", "O_PATH opens nothing"},
};

// Harmless are files of the kernel, new files, folders, and libraries that are already loaded or found by the loader.
bool opens_what_anybody_may_have_put_there(const std::string& line) {
  static const std::regex kOpens(
      R"(std::[io]?fstream\b|\bfopen\(|(^|\W)::open(at2?)?\(|(\.|->)open\(|\bopendir\(|\bdlopen\(|jit::load\()");
  static const std::regex kHarmless(
      R"("/proc/|"/sys/|"/dev/null"|O_DIRECTORY|O_CREAT \| O_EXCL|RTLD_NOLOAD|dlopen\("lib[\w-]+\.so)");
  return std::regex_search(line, kOpens) && !std::regex_search(line, kHarmless);
}

// The first such line; "": none.
std::string opening_line(const Source& source) {
  std::istringstream lines(source.text);
  for (std::string line; std::getline(lines, line);)
    if (opens_what_anybody_may_have_put_there(line)) return line;
  return "";
}

TEST_CASE("files are opened by core/base, which does not wait for pipes and devices") {
  int files = 0;
  std::map<std::string, std::string> opening;
  for (const Source& source : read_sources({"core", "cli", "gui"}, {".h", ".cpp"})) {
    ++files;
    if (std::string line = opening_line(source); !line.empty()) opening[source.path] = line;
  }
  for (const auto& [path, line] : opening)
    if (!kAllowed.contains(path)) FAIL_CHECK(path << " opens a file by itself: " << line);
  for (const auto& [path, reason] : kAllowed) CHECK_MESSAGE(opening.contains(path), path << " needs no leave any more");
  CHECK(files >= 400);
}

TEST_CASE("a line that opens a file is told from one that opens what the kernel or memtune itself made") {
  for (const char* line : {"  std::ifstream file(path);", "std::ofstream(path) << 1;", "FILE* f = fopen(path, \"r\");",
                           "int f = ::open(path.c_str(), O_RDONLY);", "files.open(path, O_RDONLY, 0)",
                           "void* l = dlopen(path.c_str(), RTLD_NOW);", "return torch::jit::load(path);"})
    CHECK_MESSAGE(opens_what_anybody_may_have_put_there(line), line);
  for (const char* line : {"std::ifstream file(\"/proc/vmstat\");", "::open(\"/dev/null\", O_RDONLY)",
                           "files.open(path, O_CREAT | O_EXCL, 0)", "files.open(path, O_RDONLY | O_DIRECTORY, 0)",
                           "dlopen(\"libcuda.so.1\", RTLD_NOW)", "ScratchFile::open() {", "void f(std::istream& text);",
                           "std::istringstream lines(text);", "is_open(file)"})
    CHECK_MESSAGE(!opens_what_anybody_may_have_put_there(line), line);
}

}  // namespace
}  // namespace memtune::tests::opened_files_test
