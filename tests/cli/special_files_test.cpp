// An archive may contain a pipe in place of a file, and a typo may name a device. A plain open would wait forever,
// beyond --timeout and SIGTERM.
#include <doctest/doctest.h>
#include <sys/stat.h>

#include <algorithm>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/cli/paper_run.h"
#include "tests/support/run_program.h"

namespace memtune::special_files_test {

using memtune::test::count_lines;
using memtune::test::Ended;
using memtune::test::PaperRun;
using memtune::test::slurp;
using memtune::test::Workspace;
namespace fs = std::filesystem;

namespace {

constexpr int kKilled = 137;

// Kills the program after 30 s.
Ended memtune_in_time(const Workspace& place, const std::string& arguments) {
  const memtune::test::Variable line("LINE", place.shell_line(arguments));
  const int status = std::system("timeout -s KILL 30 sh -c \"$LINE\"");
  return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), slurp(place.folder.path / "out"),
          slurp(place.folder.path / "err")};
}

fs::path make_pipe(const fs::path& path) {
  fs::create_directories(path.parent_path());
  REQUIRE(::mkfifo(path.c_str(), 0600) == 0);
  return path;
}

void write_config(const fs::path& folder) {
  fs::create_directories(folder);
  std::ofstream(folder / "config.json")
      << R"({"model_type": "llama", "vocab_size": 64, "hidden_size": 16, "intermediate_size": 32,
             "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 2, "rms_norm_eps": 1e-5,
             "hidden_act": "silu"})";
}

// Commands that read a path given by the user; @ is the path. A test below finds missing flags with the help.
const std::vector<std::pair<std::string, std::string>> kReaders = {
    {"--model", "sweep --model @"},
    {"--inputs", "sweep --model tiny --inputs @"},
    {"--library", "sweep --model hf --library @"},
    {"--lora", "sweep --model tiny --lora @"},
    {"--plan", "sweep --model tiny --plan @"},
    {"--plan", "run --model tiny --plan @"},
    {"--plan", "profile --model tiny --plan @"},
    {"--config", "sweep --trainer trl --config @"},
    {"--config", "sweep --trainer trl --config @ -- true {config}"},
    {"--like", "sweep --trainer trl --config mine.yaml --like @ -- true {config}"},
    {"--scratch", "sweep --model tiny --scratch @"},
    {"--out", "sweep --model tiny --out @"},
    {"--out", "sweep --out @ -- true"},
    {"--out", "run --model tiny --out @"},
    {"--from", "plan --from @ --budget 1GiB"},
    {"--machine", "plan --from memtune-run --machine @"},
    {"--from-machine", "plan --from memtune-run --machine h200 --from-machine @"},
    {"--into", "export --trainer axolotl --into @"},
    {"--check", "export --trainer axolotl --check @"},
    {"", "plan validate @"},
    {"", "report @"},
    {"", "export --trainer axolotl @"},
    {"", "diff @ @"},
};

// Flags that write a file, which may be a pipe or a device.
const std::set<std::string> kWriters = {"--json", "--csv", "--write", "--output", "--html"};

// The flags of a command that take a file or a folder, from its help.
std::set<std::string> flags_with_paths(const std::string& help) {
  static const std::regex kFlag(R"((--[a-z-]+) +(?:[A-Z|[]*[|[])?(?:FILE|DIR)\b)");
  std::istringstream lines(help);
  std::set<std::string> flags;
  for (std::string line; std::getline(lines, line);)
    if (std::smatch match; line.starts_with("  ") && std::regex_search(line, match, kFlag)) flags.insert(match[1]);
  return flags;
}

void check_refused(const Ended& ended, const std::string& path) {
  CHECK(ended.code != kKilled);
  CHECK(ended.code == 2);
  CHECK_MESSAGE(ended.err.starts_with("memtune: "), ended.err);
  CHECK_MESSAGE(ended.err.find(path) != std::string::npos, ended.err);
  CHECK_MESSAGE(count_lines(ended.err) == 1, ended.err);
}

}  // namespace

TEST_CASE("a pipe or device in place of a file is refused at once with its name") {
  const PaperRun place;
  make_pipe(place.folder.path / "pipe");
  std::ofstream(place.folder.path / "mine.yaml") << "output_dir: out\n";
  write_config(place.folder.path / "hf");
  for (const auto& [flag, command] : kReaders) {
    for (const char* path : {"./pipe", "/dev/zero"}) {
      const std::string arguments = std::regex_replace(command, std::regex("@"), path);
      CAPTURE(arguments);
      check_refused(memtune_in_time(place, arguments), path);
    }
  }
  CHECK(place.starts() == "");
  const Ended doctor = memtune_in_time(place, "doctor --scratch ./pipe");
  CHECK(doctor.code == 1);
  CHECK(doctor.out.find("./pipe") != std::string::npos);
}

TEST_CASE("every flag that takes a path is tested with pipes or writes the path") {
  const Workspace place;
  std::set<std::string> tried;
  for (const auto& [flag, command] : kReaders) tried.insert(flag);
  size_t found = 0;
  for (const char* command : {"sweep", "profile", "plan", "run", "report", "diff", "export", "doctor", "strategies"}) {
    for (const std::string& flag : flags_with_paths(place.memtune(std::string(command) + " --help-all").out)) {
      ++found;
      CHECK_MESSAGE((tried.contains(flag) || kWriters.contains(flag)), command << " " << flag);
    }
  }
  CHECK(found >= 40);
}

TEST_CASE("a pipe among the files of a model folder is refused before a trial") {
  for (const char* name : {"config.json", "model.safetensors", "model.safetensors.index.json", "shard.safetensors"}) {
    CAPTURE(name);
    const Workspace place;
    make_pipe(place.folder.path / "hf" / name);
    if (std::string(name) != "config.json") write_config(place.folder.path / "hf");
    if (std::string(name) == "shard.safetensors")
      std::ofstream(place.folder.path / "hf/model.safetensors.index.json")
          << R"({"weight_map": {"a": "shard.safetensors"}})";
    const Ended ended = memtune_in_time(place, "sweep -q --model hf --device cpu --strategy none --timeout 10s");
    check_refused(ended, "is a pipe");
    CHECK_MESSAGE(ended.err.find(std::string(name) + " is a pipe") != std::string::npos, ended.err);
    CHECK(place.starts() == "");
  }
}

TEST_CASE("an answer can be written to a pipe with a reader and fails without one") {
  const Workspace place;
  place.memtune("sweep -q --sweep quick");
  const fs::path pipe = make_pipe(place.folder.path / "pipe");
  const Ended unread = memtune_in_time(place, "report -q -o pipe");
  CHECK(unread.code == 1);
  CHECK(unread.err == "memtune: cannot write 'pipe': nothing reads from it\n");
  std::string seen;
  std::thread reader([&] { seen = slurp(pipe); });
  CHECK(memtune_in_time(place, "report -q -o pipe").code == 0);
  reader.join();
  CHECK(seen.find("Recommended") != std::string::npos);
}

}  // namespace memtune::special_files_test
