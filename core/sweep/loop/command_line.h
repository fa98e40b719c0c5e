// The command line of this process, which is recorded with the results.
#pragma once

#include <string>

namespace memtune::sweep {

// The program is named without its folder. "" if /proc is not available.
std::string command_line();

}  // namespace memtune::sweep
