// Trainers without a description, whose command memtune measures instead of reading their config.
#pragma once

#include <span>
#include <string_view>

namespace memtune::trainer {

struct TrainerWithoutProfile {
  std::string_view name;
  std::string_view also;     // another spelling, in lower-case letters and digits
  std::string_view command;  // a worked example
};

std::span<const TrainerWithoutProfile> command_trainers();

// The trainer of that name, whatever its case and punctuation, or nullptr.
const TrainerWithoutProfile* find_command_trainer(std::string_view name);

// Whether the names have the same letters and digits, whatever their case.
bool is_same_name(std::string_view a, std::string_view b);

}  // namespace memtune::trainer
