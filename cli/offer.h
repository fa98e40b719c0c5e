// The words that a shell may suggest for an option's value. CLI11 stores them with the option, as a check that accepts
// everything: the code that reads a value reports errors.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace memtune::cli {

CLI::Option* offer(CLI::Option* option, const std::vector<std::string>& words);  // words have no blanks

std::vector<std::string> offered(CLI::Option& option);  // empty: none

}  // namespace memtune::cli
