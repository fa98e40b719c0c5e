// What became of a command, from what its processes recorded and how it ended.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "core/attach/command.h"
#include "core/attach/records.h"

namespace memtune::attach {

// Ends that this side brought about; farewell: it had taken its steps and did not end.
enum class Stop { none, timeout, interrupt, farewell };

struct Ending {
  Stop stop = Stop::none;
  std::optional<int> status;  // as waitpid() gives it; nothing: it was killed in the end
  std::optional<int64_t> memory_kills;
  std::string last_words;
  std::chrono::milliseconds limit{};
  std::chrono::milliseconds wall{};  // that it ran; 0: not known
};

// Every process that trains took all its steps, and there is one.
bool all_done(const RecordFolder& records);

// By the slowest process.
int64_t steps_taken(const RecordFolder& records);

CommandResult make_result(const CommandSettings& settings, const RecordFolder& records, const Ending& ending);

}  // namespace memtune::attach
