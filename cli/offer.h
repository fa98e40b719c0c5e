// The words that a shell may offer for an option's value. They are kept with the option, as a check of CLI11's that
// lets everything pass: what is wrong with a value is told by who reads it.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace memtune::cli {

CLI::Option* offer(CLI::Option* option, const std::vector<std::string>& words);  // without blanks in them

std::vector<std::string> offered(CLI::Option& option);  // empty: nothing was

}  // namespace memtune::cli
