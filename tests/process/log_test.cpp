// A model that prints in a loop must not fill the disk. The last lines of a trial must still be in the log.
#include "core/measure/process/log.h"

#include <doctest/doctest.h>

#include "tests/support/out_of_memory_breakdown.h"
#include "tests/support/run_program.h"

namespace memtune::log_test {

using namespace memtune;
using process::ProcessLog;

TEST_CASE("a log is written as it arrives and has a tail") {
  const test::ScratchFolder folder;
  ProcessLog log(folder.path / "log.txt", system_files());
  log.add("loading\nsomething ");
  CHECK(test::slurp(folder.path / "log.txt") == "loading\nsomething ");
  log.add("is rotten\n");
  log.finish();
  CHECK(test::slurp(folder.path / "log.txt") == "loading\nsomething is rotten\n");
  CHECK(log.log_tail() == "last lines of its log: loading | something is rotten");
}

TEST_CASE("a huge log keeps its beginning and its end with the number of bytes left out") {
  const test::ScratchFolder folder;
  ProcessLog log(folder.path / "log.txt", system_files());
  const std::string line(1023, 'x');
  for (int i = 0; i < 100'000; ++i) log.add(line + "\n");
  log.add("the end\n");
  log.finish();
  const std::string text = test::slurp(folder.path / "log.txt");
  CHECK(text.size() < (size_t{9} << 20));
  CHECK(text.starts_with(line));
  CHECK(text.ends_with("the end\n"));
  const size_t note = text.find("\n[memtune: ");
  REQUIRE(note != std::string::npos);
  const int64_t left_out = std::stoll(text.substr(note + 11));
  const size_t note_bytes = text.find("]\n", note) + 2 - note;
  CHECK(left_out + static_cast<int64_t>(text.size() - note_bytes) == 100'000 * 1024 + 8);
}

TEST_CASE("a log without a file has a tail too") {
  ProcessLog log("", system_files());
  CHECK(log.log_tail() == "it logged nothing");
  log.add("no room\n");
  log.finish();
  CHECK(log.log_tail() == "last lines of its log: no room");
}

TEST_CASE("an out-of-memory line is whole in the log tail and other lines keep begin and end") {
  ProcessLog log("", system_files());
  const std::string text = "torch.OutOfMemoryError: " + test::out_of_memory_text(20);
  log.add("loading\n" + text + "\nworker failed\nleaving with " + std::string(300, 'x') + " behind\n");
  const std::string words = log.log_tail();
  CHECK(words.starts_with("last lines of its log: " + text + " | leaving with xxx"));
  CHECK(words.ends_with("xxx behind"));
  CHECK(words.size() < text.size() + 200);
}

TEST_CASE("a log replaces a hard link and does not write to its other name") {
  const test::ScratchFolder folder;
  write_file(folder.path / "mine", "precious");
  std::filesystem::create_hard_link(folder.path / "mine", folder.path / "log.txt");
  ProcessLog log(folder.path / "log.txt", system_files());
  log.add("words");
  CHECK(test::slurp(folder.path / "mine") == "precious");
  CHECK(test::slurp(folder.path / "log.txt") == "words");
}

}  // namespace memtune::log_test
