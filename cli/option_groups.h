// The headings of options in help and manual pages, in their order. An option in no group is under kOther.
#pragma once

#include <CLI/CLI.hpp>
#include <array>
#include <initializer_list>

namespace memtune::cli {

inline constexpr const char* kArguments = "Arguments";
inline constexpr const char* kModelOptions = "Model and inputs";
inline constexpr const char* kTrials = "Trials";
inline constexpr const char* kAnswer = "Answer";
inline constexpr const char* kTraining = "Training";
inline constexpr const char* kMeasuring = "Measuring";
inline constexpr const char* kTiers = "Offloading";
inline constexpr const char* kOther = "Options";
inline constexpr const char* kCommon = "Common options";

inline constexpr std::array kGroups = {kArguments, kModelOptions, kTrials, kAnswer, kTraining,
                                       kMeasuring, kTiers,        kOther,  kCommon};

inline void put_under(const char* group, CLI::App& command, std::initializer_list<const char*> options) {
  for (const char* option : options) command.get_option(option)->group(group);
}

}  // namespace memtune::cli
