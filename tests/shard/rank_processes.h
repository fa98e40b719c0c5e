// Runs ranks as processes: this program starts itself again for the same test case with MEMTUNE_TEST_RANK. Each process
// has its own random numbers and cast cache, which threads would share.
#pragma once

#include <doctest/doctest.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "core/engine/shard/collectives.h"
#include "tests/support/run_program.h"

namespace memtune::tests {

// `progress` is a file. If the rank fails, the failure message quotes its content.
using LocalOrRemoteRankTrialProcess = std::function<void(shard::Collectives&, const std::filesystem::path& progress)>;

constexpr char kRankVariable[] = "MEMTUNE_TEST_RANK";  // "1/3 FILE": rank 1 of 3, with the rendezvous file
constexpr char kRankRan[] = "this rank came to its end";

inline std::filesystem::path progress_of(const std::filesystem::path& meeting, int rank) {
  return meeting.parent_path() / ("at" + std::to_string(rank));
}

inline void run_as_rank(const std::string& which, int of, const LocalOrRemoteRankTrialProcess& rank) {
  const int number = std::stoi(which), size = std::stoi(which.substr(which.find('/') + 1));
  if (size != of) return;
  const std::string meeting = which.substr(which.find(' ') + 1);
  rank(*shard::connect({number, size, meeting, std::chrono::seconds(60)}), progress_of(meeting, number));
  MESSAGE(std::string(kRankRan));
}

// The output of the rank if it failed or did nothing, else "".
inline std::string failure_of_rank(const std::string& test_case, int rank, int size,
                                   const std::filesystem::path& folder) {
  const std::string me = std::filesystem::read_symlink("/proc/self/exe").string();
  const std::string log = (folder / ("log" + std::to_string(rank))).string();
  const std::filesystem::path meeting = folder / "meeting";
  const std::string which = std::to_string(rank) + "/" + std::to_string(size) + " " + meeting.string();
  const std::string line = std::string(kRankVariable) + "='" + which + "' exec '" + me + "' --test-case='" + test_case +
                           "' >'" + log + "' 2>&1";
  const int status = std::system(line.c_str());
  const std::string text = test::slurp(log);
  if (status == 0 && text.find(kRankRan) != std::string::npos) return "";
  return "rank " + which + " ended behind " + test::slurp(progress_of(meeting, rank)) + ": " + text;
}

// Runs `rank` in `size` processes. `test_case` is the name of the calling test case and has no commas.
inline void on_rank_processes(const std::string& test_case, int size, const LocalOrRemoteRankTrialProcess& rank) {
  if (const char* which = std::getenv(kRankVariable)) return run_as_rank(which, size, rank);
  const test::ScratchFolder folder;
  std::vector<std::string> failures(static_cast<size_t>(size));
  std::vector<std::thread> ranks;
  for (int i = 0; i < size; ++i)
    ranks.emplace_back([&, i] { failures[static_cast<size_t>(i)] = failure_of_rank(test_case, i, size, folder.path); });
  for (std::thread& each : ranks) each.join();
  for (const std::string& failure : failures) CHECK(failure == "");
}

}  // namespace memtune::tests
