// A sweep continues from its journal alone, so a truncated or damaged journal must never give wrong results.
#include "core/sweep/directory/sweep_trial_journal.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>

#include "core/base/error.h"
#include "core/base/hash.h"
#include "tests/support/run_program.h"

namespace memtune::journal_test {

using memtune::sweep::SweepTrialJournal;
using memtune::test::ScratchFolder;
using memtune::test::slurp;

namespace {

void write(const std::filesystem::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

std::string two_trials(const std::filesystem::path& path) {
  SweepTrialJournal journal(path);
  journal.start("aa", "trials/1-none", "none");
  journal.end("aa", "ok");
  journal.start("bb", "trials/2-checkpoint-full", "checkpoint:full");
  return slurp(path);
}

int known(const SweepTrialJournal& journal) { return (journal.find("aa") ? 1 : 0) + (journal.find("bb") ? 1 : 0); }

}  // namespace

TEST_CASE("a journal that does not exist yet is empty") {
  const ScratchFolder folder;
  const SweepTrialJournal journal(folder.path / "journal.jsonl");
  CHECK(journal.find("aa") == nullptr);
  CHECK(journal.notes().empty());
}

TEST_CASE("a journal with an ended and a started trial is read back") {
  const ScratchFolder folder;
  two_trials(folder.path / "journal.jsonl");
  const SweepTrialJournal journal(folder.path / "journal.jsonl");
  REQUIRE(known(journal) == 2);
  CHECK(journal.find("aa")->outcome == "ok");
  CHECK(journal.find("aa")->folder == "trials/1-none");
  CHECK(journal.find("bb")->outcome == "");
  CHECK(journal.find("bb")->strategy == "checkpoint:full");
  CHECK(journal.notes().empty());
}

TEST_CASE("a trial that is started again has not ended") {
  const ScratchFolder folder;
  two_trials(folder.path / "journal.jsonl");
  SweepTrialJournal(folder.path / "journal.jsonl").start("aa", "trials/1-none", "none");
  CHECK(SweepTrialJournal(folder.path / "journal.jsonl").find("aa")->outcome == "");
}

TEST_CASE("a journal that is cut at any byte keeps its whole lines and takes new ones") {
  const ScratchFolder folder;
  const auto path = folder.path / "journal.jsonl";
  const std::string whole = two_trials(folder.path / "whole");
  for (size_t cut = 0; cut < whole.size(); ++cut) {
    write(path, whole.substr(0, cut));
    const size_t lines = memtune::test::count_lines(whole.substr(0, cut));
    const bool clean = cut == 0 || whole[cut - 1] == '\n';
    {
      SweepTrialJournal journal(path);
      CHECK(known(journal) == (lines < 2 ? 0 : lines < 4 ? 1 : 2));  // the first line is the header
      CHECK(journal.notes().size() == (clean ? 0 : 1));
      journal.end("aa", "nan");
    }
    CHECK(SweepTrialJournal(path).notes().empty());
    CHECK(SweepTrialJournal(path).find("aa")->outcome == "nan");
  }
}

TEST_CASE("a changed byte invalidates only its line and gives a note") {
  const ScratchFolder folder;
  const auto path = folder.path / "journal.jsonl";
  const std::string whole = two_trials(folder.path / "whole");
  const size_t second_line = whole.find('\n') + 1, end_of_aa = whole.find('\n', second_line) + 1;
  for (size_t at = end_of_aa; at < whole.find('\n', end_of_aa); ++at) {
    std::string damaged = whole;
    damaged[at] ^= 1;
    write(path, damaged);
    const SweepTrialJournal journal(path);
    CHECK(journal.find("aa")->outcome == "");
    CHECK(journal.find("bb") != nullptr);
    CHECK_MESSAGE(!journal.notes().empty(), at);
  }
}

TEST_CASE("the note of a damaged line names file and line") {
  const ScratchFolder folder;
  const auto path = folder.path / "journal.jsonl";
  std::string whole = two_trials(path);
  whole[whole.find('\n') + 3] = '!';
  write(path, whole);
  const SweepTrialJournal journal(path);
  REQUIRE(journal.notes().size() == 1);
  CHECK(journal.notes()[0] == path.string() + ": line 2 is damaged; skipped");
}

TEST_CASE("the first line names format and version and damage to it only gives a note") {
  const ScratchFolder folder;
  const auto path = folder.path / "journal.jsonl";
  const std::string whole = two_trials(folder.path / "whole");
  CHECK(whole.substr(17, whole.find('\n') - 17) == R"({"file":"memtune journal","version":1})");
  for (size_t at = 0; at < whole.find('\n'); ++at) {
    for (const int bit : {1, 2, 4, 8, 16, 32, 64, 128}) {
      std::string damaged = whole;
      damaged[at] = static_cast<char>(damaged[at] ^ bit);
      if (damaged[at] == '\n') continue;  // two damaged lines
      write(path, damaged);
      const SweepTrialJournal journal(path);
      CHECK(known(journal) == 2);
      CHECK(journal.notes().size() == 1);
    }
  }
}

TEST_CASE("a journal of a later version is refused with its number and stays unchanged") {
  const ScratchFolder folder;
  const auto path = folder.path / "journal.jsonl";
  const std::string first = R"({"file":"memtune journal","version":2})";
  const std::string text = memtune::hash_hex(first).substr(0, 16) + " " + first + "\nwhat it has then\n";
  write(path, text);
  CHECK_THROWS_WITH_AS(SweepTrialJournal{path},
                       (path.string() + " has version 2, this memtune reads version 1: go on with the memtune that "
                                        "wrote it, or sweep into another folder with --out")
                           .c_str(),
                       memtune::UsageError);
  CHECK(slurp(path) == text);
}

TEST_CASE("an invalid record is skipped even if its checksum is right") {
  const ScratchFolder folder;
  const auto line = [](const std::string& record) {
    return memtune::hash_hex(record).substr(0, 16) + " " + record + "\n";
  };
  write(folder.path / "journal", line(R"({"file": "memtune journal", "version": 1})") +
                                     line(R"({"event": "stert", "key": "k", "folder": "trials/1-none"})"));
  const SweepTrialJournal journal(folder.path / "journal");
  CHECK(journal.find("k") == nullptr);
  CHECK(journal.notes().size() == 1);
}

}  // namespace memtune::journal_test
